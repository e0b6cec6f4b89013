//! The table of options: every name, meaning and field, once.

use lazybase_model::{Error, Result, limits};

use super::Config;
use super::values::Field;

/// One option.
pub(crate) struct Opt {
    /// Its name in the file; the flag and the variable are made of it.
    pub(crate) key: &'static str,
    /// What it is listed under.
    pub(crate) group: &'static str,
    /// What its values look like.
    pub(crate) value: &'static str,
    /// What it says.
    pub(crate) about: &'static str,
    /// Which part of the configuration it is.
    pub(crate) field: Field,
}

/// How the names of variables begin.
const PREFIX: &str = "LAZYBASE_";

const PLACES: &str = "Database and addresses";
const ENTRY: &str = "Who is let in";
const CLIENTS: &str = "Clients";
const QUERIES: &str = "Queries";
const WRITES: &str = "Writes";
const STAGES: &str = "Stages";
const WATCHING: &str = "Logs and traces";

/// All of them, in the order that they are shown in.
pub(crate) static OPTIONS: &[Opt] = &[
    Opt {
        key: "db",
        group: PLACES,
        value: "DIR",
        about: "The database's folder.",
        field: Field::Path(|config| &mut config.db),
    },
    Opt {
        key: "pg_listen",
        group: PLACES,
        value: "ADDRESS|off",
        about: "Where PostgreSQL clients connect; beyond this machine only with TLS and a role \
            that has a password.",
        field: Field::Address(|config| &mut config.pg_listen),
    },
    Opt {
        key: "flight_listen",
        group: PLACES,
        value: "ADDRESS|off",
        about: "Where Arrow Flight SQL clients (ADBC, JDBC) connect; beyond this machine only with \
            TLS and a role that has a password.",
        field: Field::Address(|config| &mut config.flight_listen),
    },
    Opt {
        key: "http_listen",
        group: PLACES,
        value: "ADDRESS|off",
        about: "Where /health, /ready and /metrics are served over HTTP, to whoever can reach it \
            unless http_client_cert says otherwise. If nobody chose the address and it is taken, \
            they are not served.",
        field: Field::Address(|config| &mut config.http_listen),
    },
    Opt {
        key: "tls_cert",
        group: ENTRY,
        value: "FILE",
        about: "The server's certificate and its chain (PEM): connections are encrypted, of \
            PostgreSQL's clients on request, of Flight's and HTTP's from their first byte on; from \
            other machines all of them.",
        field: Field::Path(|config| &mut config.tls_cert),
    },
    Opt {
        key: "tls_key",
        group: ENTRY,
        value: "FILE",
        about: "The certificate's private key (PEM).",
        field: Field::Path(|config| &mut config.tls_key),
    },
    Opt {
        key: "tls_client_ca",
        group: ENTRY,
        value: "FILE",
        about: "Certificates (PEM) that vouch for clients: who shows one of theirs is the role of \
            its common name, without a password.",
        field: Field::Path(|config| &mut config.tls_client_ca),
    },
    Opt {
        key: "http_client_cert",
        group: ENTRY,
        value: "on|off",
        about: "Whether HTTP's pages are shown only to who shows a certificate that tls_client_ca \
            vouches for, with the name of a role that may log in; where trust_loopback is on, this \
            machine needs none.",
        field: Field::Switch(|config| &mut config.http_client_cert),
    },
    Opt {
        key: "trust_loopback",
        group: ENTRY,
        value: "on|off",
        about: "Whether roles, and lazybase, who owns the folder, are let in by name alone, \
            without a password, from this machine.",
        field: Field::Switch(|config| &mut config.trust_loopback),
    },
    Opt {
        key: "max_connections",
        group: CLIENTS,
        value: "N",
        about: "The most connections at a time, of each protocol; others are refused with SQLSTATE \
            53300, by Flight as RESOURCE_EXHAUSTED. Less where the system lets the process open \
            few files (ulimit -n): 9 at 64 files, 36 at 256, 500 at 1024; those of all protocols \
            share these files.",
        field: Field::Count(|config| &mut config.max_connections, 1),
    },
    Opt {
        key: "superuser_reserved_connections",
        group: CLIENTS,
        value: "N",
        about: "How many of PostgreSQL clients' connections are kept for superusers, so that one \
            gets in when the others are taken; half of max_connections at most.",
        field: Field::Count(|config| &mut config.superuser_reserved_connections, 0),
    },
    Opt {
        key: "grace",
        group: CLIENTS,
        value: "TIME",
        about: "How long statements that run may go on after the server was told to stop.",
        field: Field::Time(|config| &mut config.grace),
    },
    Opt {
        key: "statement_timeout",
        group: QUERIES,
        value: "TIME",
        about: "How long a statement may take over the wire, unless its session says otherwise \
            with SET statement_timeout; 0 is no limit.",
        field: Field::Time(|config| &mut config.statement_timeout),
    },
    Opt {
        key: "heavy_statements",
        group: QUERIES,
        value: "N",
        about: "How many heavy statements run at a time: those that may go through more than \
            four million values (rows times columns). Others of them wait for their turn; what is \
            not heavy never waits for them. Where nobody chose it: one for each core, and 8 at \
            least.",
        field: Field::Count(|config| &mut config.settings.heavy_statements, 1),
    },
    Opt {
        key: "heavy_waiting",
        group: QUERIES,
        value: "N",
        about: "How many heavy statements may wait for their turn; one more is refused with \
            SQLSTATE 53400.",
        field: Field::Count(|config| &mut config.settings.heavy_waiting, 0),
    },
    Opt {
        key: "query_memory",
        group: QUERIES,
        value: "BYTES|none",
        about: "What all queries together may hold in memory to sort, group and join. Beyond it \
            they spill to temporary files where they can, or fail alone with SQLSTATE 53200. Where \
            nobody chose it: of six tenths of the machine's memory (or of its cgroup's limit) what \
            the other budgets leave, and 256 MiB at least.",
        field: Field::Bytes(|config| &mut config.settings.query_memory),
    },
    Opt {
        key: "query_spill_bytes",
        group: QUERIES,
        value: "BYTES|none",
        about: "The temporary files that all queries together may have. A query that would need \
            more fails alone with SQLSTATE 53400.",
        field: Field::Bytes(|config| &mut config.settings.query_spill_bytes),
    },
    Opt {
        key: "cache_bytes",
        group: QUERIES,
        value: "BYTES",
        about: "The decoded extents and open indexes that are kept in memory; what FRESHNESS 0 \
            has indexed and sorted of rows that the stages have not takes up to three quarters of \
            it, and what is more than that lies beside it, for as long as the stages take to sort \
            them. A quarter may be rows of tables that change, as scans that come back to the \
            same files have reconciled them. Where nobody chose it: an eighth of the machine's \
            memory (or of its cgroup's limit), and 256 MiB at \
            least.",
        field: Field::Bytes(|config| &mut config.settings.cache_bytes),
    },
    Opt {
        key: "retention",
        group: QUERIES,
        value: "TIME",
        about: "How long the past stays readable with AS OF, and damaged files can be made again \
            from earlier stages.",
        field: Field::Time(|config| &mut config.settings.retention),
    },
    Opt {
        key: "superseded_bytes_max",
        group: QUERIES,
        value: "BYTES|none",
        about: "What superseded files may take: those that the retention or a snapshot keeps, and \
            the newest answers don't need. What the retention keeps has half of it: beyond, the \
            retention is shortened from its oldest end. Beyond all of it the oldest snapshots end, \
            with SQLSTATE 72000, but none that is younger than 10 s.",
        field: Field::Bytes(|config| &mut config.settings.superseded_bytes_max),
    },
    Opt {
        key: "batch_bytes_max",
        group: WRITES,
        value: "BYTES",
        about: "The largest batch, in bytes of uncompressed Arrow data.",
        field: Field::Bytes(|config| &mut config.settings.batch_bytes_max),
    },
    Opt {
        key: "seal_age",
        group: WRITES,
        value: "TIME",
        about: "The age at which the open SCU is sealed, to be sorted.",
        field: Field::Time(|config| &mut config.settings.seal_age),
    },
    Opt {
        key: "seal_bytes",
        group: WRITES,
        value: "BYTES",
        about: "The size at which the open SCU is sealed, in bytes of its log.",
        field: Field::Bytes(|config| &mut config.settings.seal_bytes),
    },
    Opt {
        key: "log_file_bytes",
        group: WRITES,
        value: "BYTES",
        about: "The size of one file of the log, which is filled with zeros ahead of time; 4 GiB \
            at most.",
        field: Field::BytesUpTo(
            |config| &mut config.settings.log_file_bytes,
            limits::LOG_FILE_BYTES_MAX,
        ),
    },
    Opt {
        key: "log_compression",
        group: WRITES,
        value: "none|lz4",
        about: "How the log is compressed.",
        field: Field::Compression(|config| &mut config.settings.log_compression),
    },
    Opt {
        key: "unsorted_memory",
        group: WRITES,
        value: "BYTES",
        about: "The unsorted batches that are held in memory beside the log.",
        field: Field::Bytes(|config| &mut config.settings.unsorted_memory),
    },
    Opt {
        key: "unsorted_bytes_max",
        group: WRITES,
        value: "BYTES",
        about: "The unsorted bytes beyond which writers wait for the stages.",
        field: Field::Bytes(|config| &mut config.settings.unsorted_bytes_max),
    },
    Opt {
        key: "workers",
        group: STAGES,
        value: "N",
        about: "How many attempts of stages run at once.",
        field: Field::Count(|config| &mut config.settings.workers, 1),
    },
    Opt {
        key: "sort_memory",
        group: STAGES,
        value: "BYTES",
        about: "The uncompressed bytes that one sort holds in memory.",
        field: Field::Bytes(|config| &mut config.settings.sort_memory),
    },
    Opt {
        key: "merge_fan_in",
        group: STAGES,
        value: "N",
        about: "How many runs a merge joins.",
        field: Field::Count(|config| &mut config.settings.merge_fan_in, 2),
    },
    Opt {
        key: "merge_task_bytes",
        group: STAGES,
        value: "BYTES",
        about: "What one merge reads at most, where the key range can still be split.",
        field: Field::Bytes(|config| &mut config.settings.merge_task_bytes),
    },
    Opt {
        key: "range_split_bytes",
        group: STAGES,
        value: "BYTES",
        about: "The size of a key range in the authority at which it is split.",
        field: Field::Bytes(|config| &mut config.settings.range_split_bytes),
    },
    Opt {
        key: "log_level",
        group: WATCHING,
        value: "LEVEL",
        about: "What is logged to standard error: off, error, warn, info, debug or trace; or \
            directives such as info,lazybase_pg=debug.",
        field: Field::Filter(|config| &mut config.log_level),
    },
    Opt {
        key: "log_format",
        group: WATCHING,
        value: "text|json",
        about: "How log lines look: for people, or a JSON object a line.",
        field: Field::LogFormat(|config| &mut config.log_format),
    },
    Opt {
        key: "slow_query",
        group: WATCHING,
        value: "TIME|off",
        about: "Statements that take longer are logged, without the values in them, with what \
            they read. A session may SET lazybase.slow_query.",
        field: Field::TimeOrOff(|config| &mut config.slow_query),
    },
    Opt {
        key: "trace_endpoint",
        group: WATCHING,
        value: "URL|off",
        about: "Where OpenTelemetry traces of statements and stages are sent, over OTLP/gRPC, \
            such as http://127.0.0.1:4317.",
        field: Field::UrlOrOff(|config| &mut config.trace_endpoint),
    },
];

/// The option of a name.
pub(super) fn named(key: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.key == key)
}

/// The error for a name that means nothing.
pub(super) fn unknown(key: &str, place: &str) -> Error {
    let error = Error::invalid(format!("{place}: there is no option {key:?}"));
    let known = OPTIONS.iter().map(|option| option.key);
    match lazybase_query::nearest(key, known) {
        Some(near) => error.with_hint(format!("perhaps {near} is meant")),
        None => error.with_hint("lazybase serve --print-config lists the options"),
    }
}

/// What to tell of variables that are nearly those of options, and so are not read.
pub fn misspelt(variables: impl Iterator<Item = String>) -> Vec<String> {
    let told = variables.filter_map(|variable| {
        let key = variable.strip_prefix(PREFIX)?.to_ascii_lowercase();
        let mut keys = OPTIONS.iter().map(|option| option.key);
        if keys.any(|known| known == key) {
            return None;
        }
        let known = OPTIONS.iter().map(|option| option.key);
        let near = lazybase_query::nearest(&key, known)?.to_ascii_uppercase();
        Some(format!(
            "{variable} is no option's variable, and is not read: perhaps {PREFIX}{near} is meant"
        ))
    });
    told.collect()
}

impl Opt {
    /// Whether its values are on and off.
    pub(crate) fn is_switch(&self) -> bool {
        matches!(self.field, Field::Switch(_))
    }

    /// Whether its values are times. They are read as fractions of seconds, in which a very long
    /// one has no place for the microseconds that it is shown with.
    pub(crate) fn is_time(&self) -> bool {
        matches!(self.field, Field::Time(_) | Field::TimeOrOff(_))
    }

    /// The flag, with its hyphens.
    pub(crate) fn flag(&self) -> &'static str {
        super::flags::flag(self.key)
    }

    /// The environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_ascii_uppercase())
    }

    /// Sets it; `place` is where the value was given, for the error.
    pub(super) fn set(&self, config: &mut Config, text: &str, place: &str) -> Result<()> {
        self.field.set(config, text).map_err(|why| {
            Error::invalid(format!("{place} is {}: {text:?}", why.what)).with_hint(why.hint)
        })
    }

    /// Its value, as it can be set again; `None` where it has none.
    pub(crate) fn show(&self, config: &Config) -> Option<String> {
        self.field.show(&mut config.clone())
    }
}
