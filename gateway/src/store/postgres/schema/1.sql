create schema if not exists dream;

create table dream.versions (version int primary key, made timestamptz not null default clock_timestamp());

-- Who may write. Every commit shares the lock of its row, and a new owner raises the fence. No two owners ever have the same one,
-- whatever they own: entries of slots are in the order of fences.
create sequence dream.fences;
create table dream.shards (shard int primary key, fence bigint not null, owner text not null, expires timestamptz not null);

create function dream.fence(of int, expected bigint) returns void language plpgsql as $$
begin
    perform from dream.shards where shard = of and fence = expected for share;
    if not found then
        raise exception using errcode = 'DR001', message = 'another gateway has taken over';
    end if;
end $$;

-- Sealed: enrolments, lists, evidence, and what is known of members that spoil slots.
create table dream.records (
    cluster text collate "C",
    kind text collate "C",
    name bytea,
    sealed bytea not null,
    primary key (cluster, kind, name)
);

-- Sealed: what open slots have so far. One row for each cluster and commit.
create table dream.slot_entries (
    cluster text collate "C",
    slot bigint,
    fence bigint,
    number bigint,
    sealed bytea not null,
    primary key (cluster, slot, fence, number)
);

-- Released. The record and cut_off are what a gateway reads back; the other columns follow from them.
create table dream.slots (
    cluster text collate "C",
    ends timestamptz,
    starts timestamptz not null,
    epoch bigint not null,
    members int not null,
    responders int not null,
    outcome text not null,
    load_watts bigint,
    band95_watts bigint,
    estimated_watts bigint,
    estimated_band95_watts bigint,
    filtered_watts bigint,
    filtered_band95_watts bigint,
    smoothed_watts bigint,
    smoothed_band95_watts bigint,
    cut_off bytea,
    record bytea not null,
    primary key (cluster, ends)
);
create index slots_by_time on dream.slots using brin (ends);

create table dream.hours (
    cluster text collate "C",
    starts timestamptz,
    ends timestamptz not null,
    energy_watt_hours double precision not null,
    band95_watt_hours double precision not null,
    measured_seconds double precision not null,
    filled_seconds double precision not null,
    slots bigint not null,
    decoded bigint not null,
    record bytea not null,
    primary key (cluster, starts)
);
create index hours_by_time on dream.hours using brin (starts);

create table dream.days (like dream.hours including all);

-- Until when slots were written to a receiver of Prometheus's remote write.
create table dream.sent (cluster text collate "C" primary key, until timestamptz not null);

comment on column dream.slots.load_watts is 'the noisy sum over the responders; null if the slot gave none';
comment on column dream.slots.band95_watts is 'half the width of the band that holds the exact sum with 95 % confidence';
comment on column dream.slots.estimated_watts is 'the sum scaled to all members, with what meters are expected to have cut off';
comment on column dream.slots.filtered_watts is 'the load of all members with less noise; in a slot without a sum, what was expected';
comment on column dream.slots.smoothed_watts is 'the same an hour later';
