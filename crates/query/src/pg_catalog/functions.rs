//! PostgreSQL's functions about tables, types and the session, row by row over texts.
//!
//! Those that need no table are made once; those that do are made for each statement, over what
//! it sees.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use arrow::temporal_conversions::timestamp_us_to_datetime;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use lazybase_model::Error;

use super::by_name::{self, REGPROC_KNOWN};
use super::described::Numbered;
use super::{fixed, privileges, types};
use crate::activity::End;
use crate::catalog::Names;
use crate::error::into_datafusion;
use crate::parse::{CATALOG, SCHEMA};
use crate::settings::{SERVER_VERSION, Settings};
use crate::types::UTC;

/// The names that casts to `regclass` are rewritten to.
pub(super) const REGCLASS_OID: &str = "pg_regclass_oid";
pub(super) const REGCLASS_NAME: &str = "pg_regclass_name";
/// The default of a table's column, by their numbers.
pub(super) const DEFAULT_OF: &str = "pg_default_of";
/// The sequence that is of a column.
pub(super) const SERIAL_SEQUENCE: &str = "pg_get_serial_sequence";
/// What the sequence of an identity column is like, by the column's table and name.
pub(super) const IDENTITY_OPTIONS: &str = "pg_identity_options";
/// The names of the columns of a table's key, by the table's number, and what stands between them.
pub(super) const KEY_COLUMNS: &str = "pg_key_columns";
pub(super) const BETWEEN_NAMES: &str = "\u{1f}";
/// The age of a transaction, by its number.
pub(super) const XID_AGE: &str = "pg_xid_age";
/// The names that casts to `regproc` are rewritten to.
pub(super) const REGPROC_OID: &str = "pg_regproc_oid";
pub(super) const REGPROC_NAME: &str = "pg_regproc_name";

/// The type of a cast that became a call of this function.
pub(crate) fn cast_by(function: &str) -> Option<&'static str> {
    if [REGPROC_OID, REGPROC_NAME, REGPROC_KNOWN].contains(&function) {
        return Some("regproc");
    }
    let mut all = by_name::ALL.iter();
    let by = all.find(|by| [by.oid, by.name].contains(&function))?;
    Some(by.cast)
}

pub(crate) type Arguments<'a> = [Option<&'a str>];
type Tell = dyn Fn(&Arguments) -> lazybase_model::Result<Option<String>> + Send + Sync;

/// A function from texts to a text, which is then what the function gives.
struct Told {
    name: String,
    gives: DataType,
    signature: Signature,
    tell: Arc<Tell>,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Told) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.tell, &other.tell)
    }
}

impl Eq for Told {}

impl Hash for Told {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Told {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.gives.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = texts(args.args, rows)?;
        let told =
            (0..rows).map(|row| (self.tell)(&row_of(&columns, row)).map_err(into_datafusion));
        let told: Vec<Option<String>> = told.collect::<Result<_>>()?;
        let array: ArrayRef = match &self.gives {
            DataType::List(_) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for text in &told {
                    lists.append_option(text.as_ref().map(|text| {
                        let items = text.split(',').map(|item| Some(item.to_owned()));
                        items.collect::<Vec<_>>()
                    }));
                }
                Arc::new(lists.finish())
            }
            gives => {
                let texts: ArrayRef = Arc::new(StringArray::from(told));
                cast(&texts, gives).map_err(failed)?
            }
        };
        Ok(ColumnarValue::Array(array))
    }
}

fn failed(error: ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}

/// The arguments of a function's rows, as texts.
pub(crate) fn texts(arguments: Vec<ColumnarValue>, rows: usize) -> Result<Vec<StringArray>> {
    let texts = |value: ColumnarValue| -> Result<StringArray> {
        let texts = cast(&value.into_array(rows)?, &DataType::Utf8).map_err(failed)?;
        Ok(texts.as_string::<i32>().clone())
    };
    arguments.into_iter().map(texts).collect()
}

/// Those of one row.
pub(crate) fn row_of(columns: &[StringArray], row: usize) -> Vec<Option<&str>> {
    let row = columns
        .iter()
        .map(|column| column.is_valid(row).then(|| column.value(row)));
    row.collect()
}

/// Whatever it is given, a function looks at itself.
pub(crate) fn any_arguments(volatility: Volatility) -> Signature {
    Signature::one_of(
        vec![TypeSignature::VariadicAny, TypeSignature::Nullary],
        volatility,
    )
}

pub(super) fn function(
    name: &str,
    gives: DataType,
    tell: impl Fn(&Arguments) -> Option<String> + Send + Sync + 'static,
) -> ScalarUDF {
    let tell = move |arguments: &Arguments<'_>| Ok(tell(arguments));
    failing(name, gives, Volatility::Stable, tell)
}

/// A function that may refuse its arguments.
pub(crate) fn failing(
    name: &str,
    gives: DataType,
    volatility: Volatility,
    tell: impl Fn(&Arguments) -> lazybase_model::Result<Option<String>> + Send + Sync + 'static,
) -> ScalarUDF {
    ScalarUDF::from(Told {
        name: name.to_owned(),
        gives,
        signature: any_arguments(volatility),
        tell: Arc::new(tell),
    })
}

/// The argument at a place.
pub(super) fn argument<'a>(arguments: &Arguments<'a>, at: usize) -> Option<&'a str> {
    arguments.get(at).copied().flatten()
}

fn number(arguments: &Arguments, at: usize) -> Option<i64> {
    argument(arguments, at)?.trim().parse().ok()
}

/// The functions that need no table.
pub(crate) fn fixed() -> Vec<ScalarUDF> {
    let text = |name: &str, value: &'static str| {
        function(name, DataType::Utf8, move |_| Some(value.to_owned()))
    };
    let truth = |name: &str, value: bool| {
        function(name, DataType::Boolean, move |_| Some(value.to_string()))
    };
    let mut all = vec![
        function("version", DataType::Utf8, |_| {
            Some(format!("PostgreSQL {SERVER_VERSION}"))
        }),
        text("current_schema", SCHEMA),
        text("current_database", CATALOG),
        text("current_catalog", CATALOG),
        text("pg_client_encoding", "UTF8"),
        text("getdatabaseencoding", "UTF8"),
        truth("pg_is_in_recovery", false),
        truth("pg_relation_is_publishable", false),
        truth("pg_is_other_temp_schema", false),
        function("pg_my_temp_schema", DataType::Int64, |_| {
            Some("0".to_owned())
        }),
        function("pg_char_to_encoding", DataType::Int32, |a| {
            let name = argument(a, 0)?.to_ascii_uppercase();
            let is_known = matches!(name.as_str(), "UTF8" | "UTF-8" | "UNICODE");
            Some(if is_known { "6" } else { "-1" }.to_owned())
        }),
        function("pg_encoding_to_char", DataType::Utf8, |_| {
            Some("UTF8".to_owned())
        }),
        function("pg_get_expr", DataType::Utf8, |a| {
            argument(a, 0).map(str::to_owned)
        }),
        // No transaction has a number that could be used up.
        function(XID_AGE, DataType::Int32, |a| {
            argument(a, 0).map(|_| "0".to_owned())
        }),
        // What an index of this kind can do, which all have in common.
        function("pg_indexam_has_property", DataType::Boolean, |a| {
            let has = ["can_order", "can_unique", "can_multi_col"].contains(&argument(a, 1)?);
            Some(has.to_string())
        }),
        function("pg_size_pretty", DataType::Utf8, |a| {
            argument(a, 0)?.parse().ok().map(size)
        }),
        function("quote_ident", DataType::Utf8, |a| {
            argument(a, 0).map(crate::definition::identifier)
        }),
        function("quote_literal", DataType::Utf8, |a| {
            argument(a, 0).map(crate::definition::text)
        }),
        function(
            "current_schemas",
            DataType::new_list(DataType::Utf8, true),
            |a| {
                Some(match argument(a, 0) {
                    Some("true") => format!("pg_catalog,{SCHEMA}"),
                    _ => SCHEMA.to_owned(),
                })
            },
        ),
        function("format_type", DataType::Utf8, |a| {
            let oid = u32::try_from(number(a, 0)?).ok()?;
            Some(types::format_type(oid, number(a, 1)))
        }),
    ];
    all.extend(by_name::fixed());
    all.extend(always());
    all.extend(of_functions());
    all
}

/// The functions between the names and the numbers of functions.
fn of_functions() -> [ScalarUDF; 2] {
    let number_of =
        |arguments: &Arguments<'_>| argument(arguments, 0).map(function_number).transpose();
    [
        failing(REGPROC_OID, DataType::Int64, Volatility::Stable, number_of),
        function(REGPROC_NAME, DataType::Utf8, |a| {
            let given = argument(a, 0)?;
            let named = number(a, 0).and_then(fixed::function_name);
            Some(named.unwrap_or(given).to_owned())
        }),
    ]
}

/// The number of a function: what a number says already, and 0 for none.
fn function_number(given: &str) -> lazybase_model::Result<String> {
    let name = given.trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    if matches!(name, "" | "-") {
        return Ok("0".to_owned());
    }
    if name.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok(name.to_owned());
    }
    let known = fixed::function_number(name);
    known.map(|number| number.to_string()).ok_or_else(|| {
        Error::not_found(format!("no function {name:?} is in the catalogue"))
            .with_detail("it lists the functions that read and write values of types alone")
            .with_hint("information_schema.routines lists those that can be called")
            .with_sqlstate("42883")
    })
}

/// A number of bytes as people read it.
fn size(bytes: i64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut left, mut unit) = (bytes, 0);
    // The next unit is taken when more than four digits would be shown.
    while left.abs() >= 10 * 1024 && unit + 1 < units.len() {
        left = (left + left.signum() * 512) / 1024;
        unit += 1;
    }
    format!("{left} {}", units[unit])
}

/// The functions that tell every caller the same: that it may, that there is nothing.
fn always() -> Vec<ScalarUDF> {
    let mut all = Vec::new();
    for name in [
        "pg_type_is_visible",
        "pg_function_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_opfamily_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "pg_opclass_is_visible",
        "pg_operator_is_visible",
        "pg_statistics_obj_is_visible",
        "has_function_privilege",
    ] {
        all.push(function(name, DataType::Boolean, |_| {
            Some("true".to_owned())
        }));
    }
    for name in [
        "pg_get_partkeydef",
        "pg_get_ruledef",
        "pg_get_triggerdef",
        "pg_get_functiondef",
        "pg_get_statisticsobjdef_columns",
        "pg_tablespace_location",
        "shobj_description",
    ] {
        all.push(function(name, DataType::Utf8, |_| None));
    }
    // What is not counted is not known.
    for name in [
        "pg_stat_get_numscans",
        "pg_stat_get_live_tuples",
        "pg_stat_get_dead_tuples",
    ] {
        all.push(function(name, DataType::Int64, |_| None));
    }
    all
}

/// The functions about connections, and since when there can be any.
fn of_connections(names: &Names) -> [ScalarUDF; 9] {
    let pid = names.pid.unwrap_or(0);
    let host = |address: SocketAddr| address.ip().to_string();
    let port = |address: SocketAddr| address.port().to_string();
    [
        address(
            names,
            "inet_client_addr",
            DataType::Utf8,
            move |client, _| Some(host(client)),
        ),
        address(
            names,
            "inet_client_port",
            DataType::Int32,
            move |client, _| Some(port(client)),
        ),
        address(
            names,
            "inet_server_addr",
            DataType::Utf8,
            move |_, server| server.map(host),
        ),
        address(
            names,
            "inet_server_port",
            DataType::Int32,
            move |_, server| server.map(port),
        ),
        function("pg_backend_pid", DataType::Int32, move |_| {
            Some(pid.to_string())
        }),
        ending(names, "pg_cancel_backend", End::Statement),
        ending(names, "pg_terminate_backend", End::Connection),
        opened(names, "pg_postmaster_start_time"),
        opened(names, "pg_conf_load_time"),
    ]
}

/// A function of when the database was opened, with the settings that it has.
fn opened(names: &Names, name: &str) -> ScalarUDF {
    let since = timestamp_us_to_datetime(names.activities.since_micros());
    let moment = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    function(name, moment, move |_| since.map(|since| since.to_string()))
}

/// A function of where the session's own connection comes from, and where it has come to; NULL
/// where no server serves the session.
fn address(
    names: &Names,
    name: &str,
    gives: DataType,
    tell: impl Fn(SocketAddr, Option<SocketAddr>) -> Option<String> + Send + Sync + 'static,
) -> ScalarUDF {
    let (activities, pid) = (Arc::clone(&names.activities), names.pid);
    function(name, gives, move |_| {
        let (client, server) = activities.addresses(pid?)?;
        tell(client, server)
    })
}

/// A function that ends something of connections, by their numbers; whether they are there.
fn ending(names: &Names, name: &str, what: End) -> ScalarUDF {
    let (activities, gate) = (Arc::clone(&names.activities), names.gate.clone());
    failing(name, DataType::Boolean, Volatility::Volatile, move |a| {
        let pid = number(a, 0).and_then(|pid| i32::try_from(pid).ok());
        let ended = pid.map(|pid| activities.end(pid, what, &gate));
        Ok(ended.transpose()?.map(|was_there| was_there.to_string()))
    })
}

/// The functions about settings.
fn of_settings(settings: &Settings) -> [ScalarUDF; 2] {
    let (settings, setting) = (settings.clone(), settings.clone());
    [
        failing(
            "current_setting",
            DataType::Utf8,
            Volatility::Stable,
            move |a| {
                let Some(name) = argument(a, 0) else {
                    return Ok(None);
                };
                match settings.show(&name.to_lowercase()) {
                    Ok(value) => Ok(Some(value)),
                    Err(_) if argument(a, 1) == Some("true") => Ok(None),
                    Err(error) => Err(error),
                }
            },
        ),
        failing(
            "set_config",
            DataType::Utf8,
            Volatility::Volatile,
            move |a| {
                let Some(name) = argument(a, 0) else {
                    return Err(
                        Error::invalid("a setting's name can't be NULL").with_sqlstate("22004")
                    );
                };
                let local = argument(a, 2) == Some("true");
                let set = setting.ask(&name.to_lowercase(), argument(a, 1), local);
                set.map(Some)
            },
        ),
    ]
}

/// What a function that may refuse its arguments tells of what a statement sees.
type Checked = fn(&Numbered, &Arguments) -> lazybase_model::Result<Option<String>>;

/// The functions over what a statement sees.
pub(crate) fn over(names: &Names, settings: &Settings) -> Vec<ScalarUDF> {
    let numbered = Arc::new(Numbered::new(names.visible.clone(), names.gate.clone()));
    let with = |name: &str, gives: DataType, tell: fn(&Numbered, &Arguments) -> Option<String>| {
        let numbered = Arc::clone(&numbered);
        function(name, gives, move |arguments| tell(&numbered, arguments))
    };
    let checked = |name: &str, gives: DataType, tell: Checked| {
        let numbered = Arc::clone(&numbered);
        let tell = move |arguments: &Arguments<'_>| tell(&numbered, arguments);
        failing(name, gives, Volatility::Stable, tell)
    };
    let bytes_of: fn(&Numbered, &Arguments) -> Option<String> = |numbered, a| {
        numbered
            .bytes(argument(a, 0)?)
            .map(|bytes| bytes.to_string())
    };
    let all_bytes: fn(&Numbered, &Arguments) -> Option<String> =
        |numbered, _| Some(numbered.all_bytes().to_string());
    let number_of: fn(&Numbered, &Arguments) -> Option<String> =
        |numbered, a| numbered.oid(argument(a, 0)?).map(|oid| oid.to_string());
    let mut all = privileges::functions(names, &numbered);
    all.extend(of_connections(names));
    all.extend([
        checked(REGCLASS_OID, DataType::Int64, |numbered, a| {
            let named = argument(a, 0).map(|name| numbered.named(name));
            let oid = named.transpose()?.flatten();
            Ok(oid.map(|oid| oid.to_string()))
        }),
        with("to_regclass", DataType::Int64, number_of),
        with("pg_table_is_visible", DataType::Boolean, |numbered, a| {
            Some(numbered.is_visible(number(a, 0)?).to_string())
        }),
        with("pg_table_size", DataType::Int64, bytes_of),
        with("pg_relation_size", DataType::Int64, bytes_of),
        with("pg_total_relation_size", DataType::Int64, bytes_of),
        with("pg_database_size", DataType::Int64, all_bytes),
        with("txid_current", DataType::Int64, |numbered, _| {
            Some(numbered.edits().to_string())
        }),
        with("pg_tablespace_size", DataType::Int64, all_bytes),
        checked(REGCLASS_NAME, DataType::Utf8, |numbered, a| {
            let named = argument(a, 0).map(|name| numbered.name(name));
            named.transpose()
        }),
        with("pg_get_indexdef", DataType::Utf8, |numbered, a| {
            numbered.index_definition(number(a, 0)?, number(a, 1).unwrap_or(0))
        }),
        with(KEY_COLUMNS, DataType::Utf8, |numbered, a| {
            numbered.key_columns(number(a, 0)?, BETWEEN_NAMES)
        }),
        with("pg_get_constraintdef", DataType::Utf8, |numbered, a| {
            numbered.constraint_definition(number(a, 0)?)
        }),
        with("pg_get_viewdef", DataType::Utf8, |numbered, a| {
            let query = numbered.view_definition(number(a, 0)?)?;
            Some(format!("{query};"))
        }),
        with(SERIAL_SEQUENCE, DataType::Utf8, |numbered, a| {
            numbered.serial_sequence(argument(a, 0)?, argument(a, 1)?)
        }),
        with(IDENTITY_OPTIONS, DataType::Utf8, |numbered, a| {
            numbered.identity_options(argument(a, 0)?, argument(a, 1)?)
        }),
        with("obj_description", DataType::Utf8, |numbered, a| {
            numbered.comment(number(a, 0)?, 0)
        }),
        with(DEFAULT_OF, DataType::Utf8, |numbered, a| {
            numbered.default(number(a, 0)?, number(a, 1)?)
        }),
        with("col_description", DataType::Utf8, |numbered, a| {
            numbered.comment(number(a, 0)?, number(a, 1)?)
        }),
    ]);
    all.extend(of_settings(settings));
    all
}
