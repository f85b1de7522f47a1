//! The data inventory of `docs/dpia.md`: every message and record with its fields as the code has them. What a field is for,
//! and for how long it is kept, is stated here by hand, so that a new field makes somebody think about it.
//!
//! `DREAM_BLESS=1` writes the table into the page.

use std::collections::BTreeSet;
use std::path::PathBuf;

use syn::{Fields, Item};

/// Where the code says what there is.
#[derive(Clone, Copy)]
enum Code {
    /// The fields of a struct.
    Struct(&'static str, &'static str),
    /// The fields of a variant of an enum.
    Variant(&'static str, &'static str, &'static str),
    /// The variants of an enum.
    Variants(&'static str, &'static str),
    /// The columns of a table in SQL.
    Columns(&'static str),
}

/// One message or record.
struct Entry {
    name: &'static str,
    code: Code,
    /// In the order of the code.
    fields: &'static str,
    /// Those that derive from what a home drew, or hide it.
    derived: &'static str,
    purpose: &'static str,
    kept: &'static str,
}

const WIRE: &str = "protocol/src/wire.rs";
const LIST: &str = "protocol/src/wire/list.rs";
const COMMITTEE: &str = "protocol/src/wire/committee.rs";
const METER: &str = "protocol/src/meter/record.rs";
const GATEWAY: &str = "protocol/src/cluster/record.rs";
const SLOT: &str = "until the end of the slot after it";

/// Never sent or stored as such.
const NOT_SENT: [(&str, &str, &str); 1] = [(LIST, "ListStatement", "what a list header and its entries are made of")];

const MESSAGES: &[Entry] = &[
    Entry {
        name: "reading",
        code: Code::Struct(WIRE, "MaskedReading"),
        fields: "list slot attempt ciphertext",
        derived: "ciphertext",
        purpose: "the reading with noise, masked: opens in the sum only",
        kept: "in the broker's queue; in the gateway until the slot is closed",
    },
    Entry {
        name: "reading for a committee",
        code: Code::Struct(COMMITTEE, "DealtReading"),
        fields: "list slot attempt ciphertext corrections",
        derived: "ciphertext corrections",
        purpose: "the same, dealt to holders",
        kept: "as above",
    },
    Entry {
        name: "recovery request",
        code: Code::Struct(WIRE, "RecoveryRequest"),
        fields: "list slot attempt missing deadline",
        derived: "",
        purpose: "says which members are silent, and asks for what opens the sum without them",
        kept: SLOT,
    },
    Entry {
        name: "reveal",
        code: Code::Struct(WIRE, "Reveal"),
        fields: "list slot attempt revealed request",
        derived: "revealed",
        purpose: "takes the masks towards silent members, and the meter's own, out of the sum",
        kept: "in the gateway until the slot is closed",
    },
    Entry {
        name: "answer of a holder",
        code: Code::Struct(COMMITTEE, "Answer"),
        fields: "list slot attempt sum request",
        derived: "sum",
        purpose: "a holder's part of the sum over all members",
        kept: "in the gateway until the slot is closed",
    },
    Entry {
        name: "retry",
        code: Code::Struct(WIRE, "Retry"),
        fields: "list slot attempt deadline",
        derived: "",
        purpose: "asks for another attempt of a slot",
        kept: SLOT,
    },
    Entry {
        name: "enrolment",
        code: Code::Struct(WIRE, "EnrolmentStatement"),
        fields: "cluster certificate agreement not_before not_after seq holds",
        derived: "",
        purpose: "says that a meter takes part, and with which key",
        kept: "35 days at most in lists; in the gateway until the member is dropped",
    },
    Entry {
        name: "status",
        code: Code::Struct(WIRE, "Status"),
        fields: "cluster list slot code newest_epoch least_malicious evidence",
        derived: "",
        purpose: "a meter says why it does not answer",
        kept: "counted, not stored; evidence is stored",
    },
    Entry {
        name: "evidence",
        code: Code::Struct(WIRE, "EvidenceStatement"),
        fields: "cluster certificate first second",
        derived: "",
        purpose: "two messages of a gateway that contradict each other, for anyone to judge",
        kept: "the last 16",
    },
    Entry {
        name: "list header",
        code: Code::Struct(LIST, "ListHeader"),
        fields: "cluster epoch previous_epoch previous certificate gateway meter_authorities gateway_authority from_slot to_slot terms members hashes",
        derived: "",
        purpose: "the terms of a cluster, signed by the gateway",
        kept: "on the broker until the next list",
    },
    Entry {
        name: "list header: terms",
        code: Code::Struct("protocol/src/params.rs", "Terms"),
        fields: "slot_seconds reading_seconds reveal_seconds max_missing max_malicious scheme lo hi epsilon_numerator epsilon_denominator day_micro_rho attempts",
        derived: "",
        purpose: "what meters check against their owners' policies",
        kept: "with the header",
    },
    Entry {
        name: "list header: hashes",
        code: Code::Struct(LIST, "ListHashes"),
        fields: "entries digests holders",
        derived: "",
        purpose: "bind the header to its members",
        kept: "with the header",
    },
    Entry {
        name: "full list",
        code: Code::Struct(LIST, "FullList"),
        fields: "header enrolments",
        derived: "",
        purpose: "who is in the cluster; shows names and certificates of all members to all of them",
        kept: "on the broker until the next list; in a meter until its last slot is closed",
    },
    Entry {
        name: "short list",
        code: Code::Struct(LIST, "ShortList"),
        fields: "header holders digests",
        derived: "",
        purpose: "the same for a committee: names the holders only",
        kept: "as above",
    },
    Entry {
        name: "aggregate",
        code: Code::Struct("gateway/src/board/slot_json.rs", "SlotJson"),
        fields: "slot start end epoch outcome loads mean_error_watts load_smoothed_watts band95_smoothed_watts members responders missing honest attempts epsilon micro_epsilon noise_scale_watts",
        derived: "loads load_smoothed_watts",
        purpose: "the released sum of a cluster, noise included; also the API's and the export's row",
        kept: "on the broker until the next slot's",
    },
    Entry {
        name: "aggregate: loads",
        code: Code::Struct("gateway/src/board/slot_json.rs", "LoadsJson"),
        fields: "load_watts band95_watts band99_watts load_estimated_watts band95_estimated_watts band99_estimated_watts load_filtered_watts band95_filtered_watts load_best load_best_because cut_off_watts",
        derived: "load_watts load_estimated_watts load_filtered_watts cut_off_watts",
        purpose: "sums, and how far the noise may be",
        kept: "with the aggregate",
    },
    Entry {
        name: "aggregate: energy",
        code: Code::Struct("gateway/src/board/energy.rs", "PeriodsJson"),
        fields: "hour day month",
        derived: "hour day month",
        purpose: "the cluster's energy so far, from released sums",
        kept: "with the aggregate",
    },
];

const IN_THE_METER: &[Entry] = &[
    Entry {
        name: "account",
        code: Code::Struct(METER, "Account"),
        fields: "cluster ledger days high_water seq newest_list protection evidence answered",
        derived: "days",
        purpose: "what must never go back: budget spent, time reported; what the open day has used",
        kept: "for ever; the account of a day until that day is closed",
    },
    Entry {
        name: "enrolment",
        code: Code::Struct(METER, "OwnEnrolment"),
        fields: "bytes seq not_before not_after agreement self_key",
        derived: "",
        purpose: "the keys that masks come from",
        kept: "35 days at most, then erased with its lists",
    },
    Entry {
        name: "list",
        code: Code::Struct(METER, "AcceptedList"),
        fields: "epoch accepted_at bytes",
        derived: "",
        purpose: "the terms that the meter has accepted",
        kept: "until its last slot is closed",
    },
    Entry {
        name: "slot",
        code: Code::Struct(METER, "SlotRecord"),
        fields: "slot list reading retry stage",
        derived: "reading stage",
        purpose: "the reading in clear, and what was sent, so that a restart repeats the same bytes",
        kept: SLOT,
    },
    Entry {
        name: "answer",
        code: Code::Struct(METER, "AnswerRecord"),
        fields: "slot list attempt request answer",
        derived: "answer",
        purpose: "what it said as a holder, so that it answers once",
        kept: SLOT,
    },
    Entry {
        name: "evidence",
        code: Code::Struct(METER, "Evidence"),
        fields: "number bytes",
        derived: "",
        purpose: "proof against a gateway",
        kept: "the last 16",
    },
    Entry {
        name: "numbers",
        code: Code::Variants("meter/src/records.rs", "Number"),
        fields: "Inode Machine Instance SilentUntil Day Sent Birth SharedSince SharedDays SharedRho SharedEpsilon",
        derived: "",
        purpose: "notice copied records; count readings of the day; add up what was given away for `explain`",
        kept: "until the owner leaves",
    },
];

const IN_THE_GATEWAY: &[Entry] = &[
    Entry {
        name: "enrolment",
        code: Code::Variant(GATEWAY, "Record", "Enrolment"),
        fields: "meter bytes",
        derived: "",
        purpose: "who asked to take part",
        kept: "until the member is dropped",
    },
    Entry {
        name: "list",
        code: Code::Struct(GATEWAY, "ListRecord"),
        fields: "epoch published_at bytes secret protection",
        derived: "",
        purpose: "a published list, and the gateway's key for it",
        kept: "until its last slot is closed",
    },
    Entry {
        name: "retry",
        code: Code::Variant(GATEWAY, "Record", "Retry"),
        fields: "slot attempt bytes",
        derived: "",
        purpose: "another attempt of an open slot",
        kept: "until the slot is closed",
    },
    Entry {
        name: "reading",
        code: Code::Variant(GATEWAY, "Record", "Reading"),
        fields: "slot attempt member ciphertext",
        derived: "ciphertext",
        purpose: "a masked reading of an open slot",
        kept: "until the slot is closed",
    },
    Entry {
        name: "reading for a committee",
        code: Code::Variant(GATEWAY, "Record", "Dealt"),
        fields: "slot attempt member ciphertext corrections",
        derived: "ciphertext corrections",
        purpose: "the same, dealt to holders",
        kept: "until the slot is closed",
    },
    Entry {
        name: "request",
        code: Code::Variant(GATEWAY, "Record", "Request"),
        fields: "slot attempt bytes",
        derived: "",
        purpose: "so that a restart asks the same",
        kept: "until the slot is closed",
    },
    Entry {
        name: "reveal",
        code: Code::Variant(GATEWAY, "Record", "Reveal"),
        fields: "slot attempt member revealed",
        derived: "revealed",
        purpose: "a member's second answer",
        kept: "until the slot is closed",
    },
    Entry {
        name: "answer of a holder",
        code: Code::Variant(GATEWAY, "Record", "Answer"),
        fields: "slot attempt member sum",
        derived: "sum",
        purpose: "a holder's part of the sum",
        kept: "until the slot is closed",
    },
    Entry {
        name: "outcome",
        code: Code::Struct("protocol/src/aggregate.rs", "SlotOutcome"),
        fields: "slot start end epoch members honest responders attempts micro_epsilon noise_scale result",
        derived: "result",
        purpose: "the released sum of a slot, or why there is none",
        kept: "56 days (`store.retention_days`)",
    },
    Entry {
        name: "offenders",
        code: Code::Struct("protocol/src/cluster/offenders.rs", "Offenders"),
        fields: "silent search pairs changed",
        derived: "",
        purpose: "members that are silent or spoil sums, by name, to form lists without them",
        kept: "while they are suspected",
    },
    Entry {
        name: "retries",
        code: Code::Struct("protocol/src/cluster/retries.rs", "Retries"),
        fields: "0",
        derived: "",
        purpose: "what retries have cost, so that members' budgets last",
        kept: "24 hours",
    },
    Entry {
        name: "evidence",
        code: Code::Variant(GATEWAY, "Record", "Evidence"),
        fields: "number bytes",
        derived: "",
        purpose: "proof against a gateway, sent by a meter",
        kept: "for ever, a few for each cluster",
    },
    Entry {
        name: "dream.records",
        code: Code::Columns("records"),
        fields: "cluster kind name sealed",
        derived: "",
        purpose: "PostgreSQL: enrolments, lists, offenders, retries and evidence, sealed",
        kept: "as the records in it",
    },
    Entry {
        name: "dream.slot_entries",
        code: Code::Columns("slot_entries"),
        fields: "cluster slot fence number sealed",
        derived: "sealed",
        purpose: "PostgreSQL: what open slots have so far, sealed",
        kept: "until the slot is closed; in its log and back-ups as long as these",
    },
    Entry {
        name: "dream.slots",
        code: Code::Columns("slots"),
        fields: "cluster ends starts epoch members responders outcome load_watts band95_watts estimated_watts estimated_band95_watts filtered_watts filtered_band95_watts smoothed_watts smoothed_band95_watts cut_off record",
        derived: "load_watts estimated_watts filtered_watts smoothed_watts record",
        purpose: "PostgreSQL: released sums, for readers",
        kept: "56 days (`store.retention_days`)",
    },
    Entry {
        name: "dream.hours, dream.days",
        code: Code::Columns("hours"),
        fields: "cluster starts ends energy_watt_hours band95_watt_hours measured_seconds filled_seconds slots decoded record",
        derived: "energy_watt_hours record",
        purpose: "the cluster's energy, from released sums; the file has the same",
        kept: "hours 1,830 days (`store.hours_retention_days`), days for ever",
    },
    Entry {
        name: "dream.sent",
        code: Code::Columns("sent"),
        fields: "cluster until",
        derived: "",
        purpose: "until when released sums were written to a receiver of remote write; the file has the same",
        kept: "for ever",
    },
    Entry {
        name: "dream.shards",
        code: Code::Columns("shards"),
        fields: "shard fence owner expires",
        derived: "",
        purpose: "PostgreSQL: which gateway may write",
        kept: "while it is in use",
    },
    Entry {
        name: "dream.versions",
        code: Code::Columns("versions"),
        fields: "version made",
        derived: "",
        purpose: "PostgreSQL: the schema's version",
        kept: "for ever",
    },
];

/// Tables of the gateway's file, and the entries above that they hold.
const TABLES: [(&str, &str); 14] = [
    ("meta", "dream.versions"),
    ("enrolments", "enrolment"),
    ("lists", "list"),
    ("slots", "reading"),
    ("outcomes", "outcome"),
    ("filtered", "dream.slots"),
    ("smoothed", "dream.slots"),
    ("cut_offs", "dream.slots"),
    ("hours", "dream.hours, dream.days"),
    ("days", "dream.hours, dream.days"),
    ("offenders", "offenders"),
    ("retries", "retries"),
    ("evidence", "evidence"),
    ("sent", "dream.sent"),
];

#[test]
fn every_field_of_every_message_and_record_is_in_the_inventory() {
    for entry in all() {
        let Entry { name, fields, derived, .. } = entry;
        let stated: Vec<&str> = fields.split(' ').collect();
        assert_eq!(
            entry.code.fields(),
            stated,
            "{name}: state what the field is for, and whether it derives from a reading"
        );
        assert!(derived.split_whitespace().all(|field| stated.contains(&field)), "{name}: {derived}");
    }
}

#[test]
fn no_message_and_no_record_is_missing() {
    let known = |file: &str, name: &str| {
        all().any(|entry| matches!(entry.code, Code::Struct(of, named) if (of, named) == (file, name)))
            || NOT_SENT.iter().any(|(of, named, _)| (*of, *named) == (file, name))
    };
    let mut structs = 0;
    for file in [WIRE, LIST, COMMITTEE] {
        for item in items(file) {
            if let Item::Struct(item) = item {
                assert!(known(file, &item.ident.to_string()), "{file} has {}", item.ident);
                structs += 1;
            }
        }
    }
    assert!(structs >= 14, "{structs}");
    for file in [METER, GATEWAY] {
        for (variant, fields) in variants(file, "Record") {
            // A variant either has fields of its own, or one struct.
            let inner = match fields {
                Fields::Unnamed(fields) => last_type(&fields.unnamed[0].ty),
                Fields::Named(_) | Fields::Unit => variant.clone(),
            };
            let found = all().any(|entry| match entry.code {
                Code::Struct(_, name) => name == inner,
                Code::Variant(of, _, name) => (of, name) == (file, variant.as_str()),
                Code::Variants(..) | Code::Columns(_) => false,
            });
            assert!(found, "{file}: {variant} of {inner}");
        }
    }
    let stated: BTreeSet<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    let schema = source("gateway/src/store/file/schema.rs");
    let tables: BTreeSet<&str> =
        schema.split("TableDefinition::new(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(tables, stated);
    assert!(TABLES.iter().all(|(_, name)| IN_THE_GATEWAY.iter().any(|entry| entry.name == *name)));
    let columns: BTreeSet<&str> = IN_THE_GATEWAY.iter().filter_map(|entry| entry.name.strip_prefix("dream.")).collect();
    let sql = sql();
    let made: BTreeSet<&str> =
        sql.split("create table dream.").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    assert_eq!(made, columns.iter().flat_map(|names| names.split(", dream.")).collect());
}

#[test]
fn the_page_has_the_inventory_of_the_code() {
    const BEGIN: &str = "<!-- inventory: DREAM_BLESS=1 cargo nextest run -p dream-meter --test cli inventory -->\n";
    const END: &str = "<!-- end of inventory -->";
    let path = root().join("docs/dpia.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let parts = [
        ("Messages on the broker", MESSAGES),
        ("Records in the meter", IN_THE_METER),
        ("Records in the gateway", IN_THE_GATEWAY),
    ];
    let tables: String = parts.iter().map(|(heading, entries)| table(heading, entries)).collect();
    let wanted = format!("{before}{BEGIN}{tables}\n{END}{after}");
    if std::env::var_os("DREAM_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert!(
        page == wanted || std::env::var_os("DREAM_BLESS").is_some(),
        "docs/dpia.md is out of date; bless it, and read the difference"
    );
}

fn all() -> impl Iterator<Item = &'static Entry> {
    MESSAGES.iter().chain(IN_THE_METER).chain(IN_THE_GATEWAY)
}

fn table(heading: &str, entries: &[Entry]) -> String {
    let rows = entries.iter().map(|Entry { name, fields, derived, purpose, kept, .. }| {
        let derived: Vec<&str> = derived.split(' ').collect();
        let field = |field: &str| match field {
            "0" => "by slot".to_owned(),
            _ if derived.contains(&field) => format!("**{field}**"),
            _ => field.to_owned(),
        };
        let fields = fields.split(' ').map(field).collect::<Vec<_>>().join(", ");
        format!("| {name} | {fields} | {purpose} | {kept} |\n")
    });
    format!("\n### {heading}\n\n| What | Fields | Purpose | Kept |\n|---|---|---|---|\n{}", rows.collect::<String>())
}

impl Code {
    fn fields(self) -> Vec<String> {
        match self {
            Self::Struct(file, name) => {
                let found = items(file).into_iter().find_map(|item| {
                    let Item::Struct(item) = item else { return None };
                    (item.ident == name).then(|| names(&item.fields))
                });
                found.unwrap_or_else(|| panic!("{file} has no {name}"))
            }
            Self::Variant(file, name, variant) => {
                let found = variants(file, name).into_iter().find(|(found, _)| found == variant);
                names(&found.unwrap_or_else(|| panic!("{file}: {name} has no {variant}")).1)
            }
            Self::Variants(file, name) => variants(file, name).into_iter().map(|(variant, _)| variant).collect(),
            Self::Columns(table) => {
                let sql = sql();
                let (_, body) = sql.split_once(&format!("create table dream.{table} (")).unwrap();
                let body = body.split(");").next().unwrap();
                let columns = body.split([',', '\n']).map(str::trim).filter_map(|line| line.split_once(' '));
                let is_column =
                    |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
                columns
                    .map(|(name, _)| name)
                    .filter(|name| is_column(name) && *name != "primary")
                    .map(str::to_owned)
                    .collect()
            }
        }
    }
}

fn names(fields: &Fields) -> Vec<String> {
    let name =
        |(at, field): (usize, &syn::Field)| field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
    fields.iter().enumerate().map(name).collect()
}

fn variants(file: &str, name: &str) -> Vec<(String, Fields)> {
    let found = items(file).into_iter().find_map(|item| {
        let Item::Enum(item) = item else { return None };
        (item.ident == name).then_some(item.variants)
    });
    found
        .unwrap_or_else(|| panic!("{file} has no {name}"))
        .into_iter()
        .map(|one| (one.ident.to_string(), one.fields))
        .collect()
}

/// The name of a type, or of what it holds.
fn last_type(of: &syn::Type) -> String {
    let syn::Type::Path(path) = of else { panic!("a variant holds a named type") };
    let last = path.path.segments.last().unwrap();
    let syn::PathArguments::AngleBracketed(inside) = &last.arguments else { return last.ident.to_string() };
    let Some(syn::GenericArgument::Type(inner)) = inside.args.first() else { return last.ident.to_string() };
    last_type(inner)
}

fn items(file: &str) -> Vec<Item> {
    syn::parse_file(&source(file)).unwrap().items
}

fn sql() -> String {
    let folder = root().join("gateway/src/store/postgres/schema");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn source(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
