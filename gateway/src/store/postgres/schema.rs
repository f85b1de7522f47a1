//! The tables, how they came about, and what is asked of them.

use tokio_postgres::Client;

use super::{StoreError, words};

/// The code with which a commit is refused whose fence is another's.
pub(super) const FENCED: &str = "DR001";

/// Each version adds to the one before; the number of a version is its place in this list, from 1. What was released is never changed.
const VERSIONS: [&str; 1] = [include_str!("schema/1.sql")];

/// Lets a role that the operator made see what is released, whenever it was made.
const GRANT: &str = "
do $$ begin
    if exists (select from pg_roles where rolname = 'dream_reader') then
        grant usage on schema dream to dream_reader;
        grant select on dream.slots, dream.hours, dream.days to dream_reader;
    end if;
end $$";

/// Makes the tables, or brings them up to date. One gateway does so at a time; the others wait for it.
pub(super) async fn migrate(client: &Client) -> Result<(), StoreError> {
    migrate_to(client, &VERSIONS).await
}

/// Brings the tables to the last of these versions, in one transaction.
async fn migrate_to(client: &Client, versions: &[&str]) -> Result<(), StoreError> {
    let migrated = async {
        client
            .batch_execute("begin; select pg_advisory_xact_lock(hashtext('dream gateway schema'))")
            .await
            .map_err(words)?;
        let found = found_up_to(client, versions.len()).await?;
        for (at, version) in versions.iter().enumerate().skip(found) {
            client.batch_execute(version).await.map_err(words)?;
            let number = i32::try_from(at + 1).expect("few versions");
            client.execute("insert into dream.versions values ($1)", &[&number]).await.map_err(words)?;
        }
        if found < versions.len() {
            client.batch_execute(GRANT).await.map_err(words)?;
        }
        client.batch_execute("commit").await.map_err(words)
    };
    let migrated = migrated.await;
    if migrated.is_err() {
        client.batch_execute("rollback").await.ok();
        return migrated;
    }
    // A role that was made later; whoever may not grant has granted before, or has it done by others.
    client.batch_execute(GRANT).await.ok();
    Ok(())
}

/// Returns the version of the tables, or 0 if there are none; a newer one is refused.
pub(super) async fn found(client: &Client) -> Result<usize, StoreError> {
    found_up_to(client, VERSIONS.len()).await
}

async fn found_up_to(client: &Client, newest: usize) -> Result<usize, StoreError> {
    let known = client.query_one("select to_regclass('dream.versions') is not null", &[]).await.map_err(words)?;
    if !known.get::<_, bool>(0) {
        return Ok(0);
    }
    let found = client.query_one("select max(version) from dream.versions", &[]).await.map_err(words)?;
    let found = usize::try_from(found.get::<_, i32>(0)).unwrap_or(0);
    if found > newest {
        return Err(StoreError::Postgres(format!(
            "it was written by a newer version (format {found}, this one reads up to {newest}): install that version"
        )));
    }
    Ok(found)
}

/// Returns why the server may lose what it has committed, if it may.
pub(super) async fn warnings(client: &Client) -> Result<Vec<String>, StoreError> {
    let sql = "select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
               current_setting('synchronous_commit') as synchronous_commit,
               current_setting('synchronous_standby_names') as synchronous,
               (select count(*) from pg_stat_replication) as standbys";
    let row = client.query_one(sql, &[]).await.map_err(words)?;
    let mut warnings = Vec::new();
    for name in ["fsync", "full_page_writes"] {
        if row.get::<_, &str>(name) != "on" {
            warnings.push(format!("`{name}` is off: a crash of the server may damage the database"));
        }
    }
    let commit: &str = row.get("synchronous_commit");
    if !["on", "remote_apply"].contains(&commit) {
        warnings.push(format!(
            "`synchronous_commit` is {commit}: a crash forgets commits whose requests are out, and their slots are lost; use on"
        ));
    }
    if row.get::<_, i64>("standbys") > 0 && row.get::<_, &str>("synchronous").is_empty() {
        warnings.push(
            "no standby is synchronous: a fail-over forgets commits whose requests are out, and their slots are lost; set \
             `synchronous_standby_names`"
                .to_owned(),
        );
    }
    Ok(warnings)
}

pub(super) const READ_RECORDS: &str = "select kind, name, sealed from dream.records where cluster = $1";
pub(super) const READ_SLOT_ENTRIES: &str =
    "select slot, fence, number, sealed from dream.slot_entries where cluster = $1 order by slot, fence, number";
pub(super) const READ_OUTCOMES: &str = "select record from dream.slots where cluster = $1 order by ends desc limit $2";
pub(super) const READ_SLOTS: &str = "
    select record, filtered_watts, filtered_band95_watts, smoothed_watts, smoothed_band95_watts, cut_off from dream.slots
    where cluster = $1 and ends >= $2 and ends < $3 order by ends desc limit $4";
pub(super) const READ_HOURS: &str = "
    select starts, record from dream.hours where cluster = $1 and starts >= $2 and starts < $3 order by starts desc limit $4";
pub(super) const READ_DAYS: &str = "
    select starts, record from dream.days where cluster = $1 and starts >= $2 and starts < $3 order by starts desc limit $4";
pub(super) const READ_EXTENT: &str = "
    (select starts, record from dream.days where cluster = $1 order by starts limit 1)
    union all (select starts, record from dream.days where cluster = $1 order by starts desc limit 3)";
pub(super) const READ_SENT: &str = "select until from dream.sent where cluster = $1";
pub(super) const READ_SPAN: &str = "select min(ends) as first, max(ends) as last from dream.slots where cluster = $1";
pub(super) const READ_CLUSTERS: &str =
    "select cluster from dream.slots union select cluster from dream.days order by cluster";

pub(super) const FENCE: &str = "select dream.fence($1, $2)";
pub(super) const FORGET_SLOTS: &str = "
    delete from dream.slot_entries using unnest($1::text[], $2::bigint[]) as gone (cluster, slot)
    where slot_entries.cluster = gone.cluster and slot_entries.slot = gone.slot";
pub(super) const PUT_SLOT_ENTRIES: &str = "
    insert into dream.slot_entries (cluster, slot, fence, number, sealed)
    select cluster, slot, $3, $4, sealed from unnest($1::text[], $2::bigint[], $5::bytea[]) as entry (cluster, slot, sealed)
    on conflict do nothing";
pub(super) const FORGET_RECORDS: &str = "
    delete from dream.records using unnest($1::text[], $2::text[], $3::bytea[]) as gone (cluster, kind, name)
    where records.cluster = gone.cluster and records.kind = gone.kind and records.name = gone.name";
pub(super) const PUT_RECORDS: &str = "
    insert into dream.records (cluster, kind, name, sealed)
    select * from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[])
    on conflict (cluster, kind, name) do update set sealed = excluded.sealed";
pub(super) const PUT_SLOTS: &str = "
    insert into dream.slots (cluster, ends, starts, epoch, members, responders, outcome, load_watts, band95_watts,
        estimated_watts, estimated_band95_watts, filtered_watts, filtered_band95_watts, smoothed_watts, smoothed_band95_watts, cut_off,
        record)
    select * from unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::int[], $6::int[], $7::text[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
        $16::bytea[], $17::bytea[])
    on conflict (cluster, ends) do update set starts = excluded.starts, epoch = excluded.epoch, members = excluded.members,
        responders = excluded.responders, outcome = excluded.outcome, load_watts = excluded.load_watts,
        band95_watts = excluded.band95_watts, estimated_watts = excluded.estimated_watts,
        estimated_band95_watts = excluded.estimated_band95_watts,
        filtered_watts = coalesce(excluded.filtered_watts, slots.filtered_watts),
        filtered_band95_watts = coalesce(excluded.filtered_band95_watts, slots.filtered_band95_watts),
        smoothed_watts = coalesce(excluded.smoothed_watts, slots.smoothed_watts),
        smoothed_band95_watts = coalesce(excluded.smoothed_band95_watts, slots.smoothed_band95_watts),
        cut_off = coalesce(excluded.cut_off, slots.cut_off), record = excluded.record";
pub(super) const PUT_LOADS: &str = "
    update dream.slots set filtered_watts = coalesce(load.filtered, filtered_watts),
        filtered_band95_watts = coalesce(load.filtered_band95, filtered_band95_watts),
        smoothed_watts = coalesce(load.smoothed, smoothed_watts),
        smoothed_band95_watts = coalesce(load.smoothed_band95, smoothed_band95_watts)
    from unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
        as load (cluster, ends, filtered, filtered_band95, smoothed, smoothed_band95)
    where slots.cluster = load.cluster and slots.ends = load.ends";
/// Which columns are replaced is the same for hours and days.
macro_rules! put_periods {
    ($table:literal) => {
        concat!(
            "insert into dream.",
            $table,
            " (cluster, starts, ends, energy_watt_hours, band95_watt_hours, measured_seconds, filled_seconds, slots, decoded, record)
            select * from unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::float8[], $5::float8[], $6::float8[],
                $7::float8[], $8::bigint[], $9::bigint[], $10::bytea[])
            on conflict (cluster, starts) do update set ends = excluded.ends, energy_watt_hours = excluded.energy_watt_hours,
                band95_watt_hours = excluded.band95_watt_hours, measured_seconds = excluded.measured_seconds,
                filled_seconds = excluded.filled_seconds, slots = excluded.slots, decoded = excluded.decoded,
                record = excluded.record"
        )
    };
}
pub(super) const PUT_HOURS: &str = put_periods!("hours");
pub(super) const PUT_DAYS: &str = put_periods!("days");
/// Outcomes with their loads, and the rows from the day of the first of them on.
pub(super) const WITHDRAW: &str = "
    with gone as (select * from unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) as gone (cluster, starts, ends)),
    first as (select cluster, min(starts) as starts from gone group by cluster),
    day as (select cluster, coalesce((select max(days.starts) from dream.days
        where days.cluster = first.cluster and days.starts <= first.starts), starts) as starts from first),
    of_slots as (delete from dream.slots using gone where slots.cluster = gone.cluster and slots.ends = gone.ends),
    of_hours as (delete from dream.hours using day where hours.cluster = day.cluster and hours.starts >= day.starts)
    delete from dream.days using day where days.cluster = day.cluster and days.starts >= day.starts";
pub(super) const PUT_SENT: &str = "
    insert into dream.sent (cluster, until) select * from unnest($1::text[], $2::timestamptz[])
    on conflict (cluster) do update set until = excluded.until";
pub(super) const EXPIRE_SLOTS: &str = "delete from dream.slots where ends < $1";
pub(super) const EXPIRE_HOURS: &str = "delete from dream.hours where starts < $1";

pub(super) const ADD_SHARD: &str =
    "insert into dream.shards (shard, fence, owner, expires) values ($1, 0, '', '-infinity') on conflict do nothing";
pub(super) const TAKE: &str = "
    update dream.shards set fence = nextval('dream.fences'), owner = $2, expires = clock_timestamp() + make_interval(secs => $3)
    where shard = $1 and expires <= clock_timestamp() returning fence";
pub(super) const OWNER: &str = "select owner from dream.shards where shard = $1";
pub(super) const RENEW: &str = "
    update dream.shards set expires = clock_timestamp() + make_interval(secs => $3) where shard = $1 and fence = $2
        and expires > '-infinity'";
pub(super) const GIVE_BACK: &str = "update dream.shards set expires = '-infinity' where shard = $1 and fence = $2";
pub(super) const SIZE: &str = "select pg_database_size(current_database())";

#[cfg(test)]
mod tests {
    use dream_testkit::lab::postgres::Postgres;
    use tokio_postgres::NoTls;

    use super::*;

    #[tokio::test]
    async fn tables_of_the_version_before_are_brought_up_to_date_in_one_transaction() {
        let server = Postgres::start();
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        migrate(&client).await.unwrap();
        let sql = |text: &str| server.sql("dream", text).unwrap();
        sql("insert into dream.records values ('north', 'list', 'epoch 1', 'sealed')");

        // Versions to come: the second cannot be made, so that the first is not either.
        let next = "alter table dream.records add column note text not null default 'kept'";
        let broken = [VERSIONS[0], next, "alter table dream.nowhere add column x int"];
        let error = migrate_to(&client, &broken).await.unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
        assert_eq!(sql("select max(version) from dream.versions"), "1");

        migrate_to(&client, &[VERSIONS[0], next]).await.unwrap();
        migrate_to(&client, &[VERSIONS[0], next]).await.unwrap();
        assert_eq!(sql("select note from dream.records"), "kept");
        assert_eq!(sql("select string_agg(version::text, ' ') from dream.versions"), "1 2");
        let refused = migrate(&client).await.unwrap_err().to_string();
        assert!(refused.contains("newer version (format 2, this one reads up to 1)"), "{refused}");
    }
}
