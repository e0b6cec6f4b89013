//! What the server says of itself and of its types.

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, SqlTransactionIsolationLevel, XdbcDataType, XdbcDatetimeSubcode,
};
use lazybase_model::limits::{COLUMNS_MAX, NAME_BYTES_MAX};

/// Numbers of what newer versions of the protocol ask for.
const INGEST_TRANSACTIONS: u32 = 11;
const STATEMENT_TIMEOUT: u32 = 100;
const TRANSACTION_TIMEOUT: u32 = 101;

/// What the server can do.
pub(crate) fn server() -> Result<SqlInfoData> {
    let mut known = SqlInfoDataBuilder::new();
    known.append(SqlInfo::FlightSqlServerName, "LazyBase");
    known.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    known.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    known.append(SqlInfo::FlightSqlServerReadOnly, false);
    known.append(SqlInfo::FlightSqlServerSql, true);
    known.append(SqlInfo::FlightSqlServerSubstrait, false);
    let transactions = SqlSupportedTransaction::Savepoint as i32;
    known.append(SqlInfo::FlightSqlServerTransaction, transactions);
    known.append(SqlInfo::FlightSqlServerCancel, true);
    known.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    known.append(INGEST_TRANSACTIONS, true);
    known.append(STATEMENT_TIMEOUT, 0_i32);
    known.append(TRANSACTION_TIMEOUT, 0_i32);
    known.append(SqlInfo::SqlDdlCatalog, false);
    known.append(SqlInfo::SqlDdlSchema, false);
    known.append(SqlInfo::SqlDdlTable, true);
    let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    known.append(SqlInfo::SqlIdentifierCase, lower);
    known.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    let as_written = SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32;
    known.append(SqlInfo::SqlQuotedIdentifierCase, as_written);
    known.append(SqlInfo::SqlAllTablesAreSelectable, true);
    let nulls = SqlNullOrdering::SqlNullsSortedHigh as i32;
    known.append(SqlInfo::SqlNullOrdering, nulls);
    known.append(SqlInfo::SqlSearchStringEscape, "\\");
    known.append(SqlInfo::SqlSupportsColumnAliasing, true);
    known.append(SqlInfo::SqlNullPlusNullIsNull, true);
    known.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    known.append(SqlInfo::SqlSchemaTerm, "schema");
    known.append(SqlInfo::SqlCatalogTerm, "catalog");
    known.append(SqlInfo::SqlCatalogAtStart, true);
    known.append(SqlInfo::SqlSelectForUpdateSupported, false);
    known.append(SqlInfo::SqlStoredProceduresSupported, false);
    known.append(SqlInfo::SqlMaxColumnNameLength, NAME_BYTES_MAX as i64);
    known.append(SqlInfo::SqlMaxTableNameLength, NAME_BYTES_MAX as i64);
    known.append(SqlInfo::SqlMaxColumnsInTable, COLUMNS_MAX as i64);
    // The nearest name that there is for snapshot isolation.
    let snapshots = SqlTransactionIsolationLevel::SqlTransactionRepeatableRead as i32;
    known.append(
        SqlInfo::SqlDefaultTransactionIsolation,
        i64::from(snapshots),
    );
    known.append(SqlInfo::SqlTransactionsSupported, true);
    known.append(SqlInfo::SqlBatchUpdatesSupported, true);
    known.append(SqlInfo::SqlSavepointsSupported, true);
    known.append(SqlInfo::SqlNamedParametersSupported, false);
    known.build()
}

/// A type of SQL: its name, what it is, how many bits, digits or characters it has, how its
/// constants are quoted.
type Known = (&'static str, XdbcDataType, Option<i32>, bool);

/// The types of columns.
const TYPES: [Known; 19] = [
    ("BOOLEAN", XdbcDataType::XdbcBit, Some(1), false),
    ("TINYINT", XdbcDataType::XdbcTinyint, Some(8), false),
    ("SMALLINT", XdbcDataType::XdbcSmallint, Some(16), false),
    ("INTEGER", XdbcDataType::XdbcInteger, Some(32), false),
    ("BIGINT", XdbcDataType::XdbcBigint, Some(64), false),
    (
        "TINYINT UNSIGNED",
        XdbcDataType::XdbcTinyint,
        Some(8),
        false,
    ),
    (
        "SMALLINT UNSIGNED",
        XdbcDataType::XdbcSmallint,
        Some(16),
        false,
    ),
    (
        "INTEGER UNSIGNED",
        XdbcDataType::XdbcInteger,
        Some(32),
        false,
    ),
    ("BIGINT UNSIGNED", XdbcDataType::XdbcBigint, Some(64), false),
    ("REAL", XdbcDataType::XdbcReal, Some(24), false),
    (
        "DOUBLE PRECISION",
        XdbcDataType::XdbcDouble,
        Some(53),
        false,
    ),
    ("DECIMAL", XdbcDataType::XdbcDecimal, Some(76), false),
    ("TEXT", XdbcDataType::XdbcVarchar, None, true),
    ("UUID", XdbcDataType::XdbcVarchar, Some(36), true),
    ("BYTEA", XdbcDataType::XdbcVarbinary, None, true),
    ("DATE", XdbcDataType::XdbcDate, Some(10), true),
    ("TIME", XdbcDataType::XdbcTime, Some(15), true),
    ("TIMESTAMP", XdbcDataType::XdbcTimestamp, Some(26), true),
    (
        "TIMESTAMP WITH TIME ZONE",
        XdbcDataType::XdbcTimestamp,
        Some(32),
        true,
    ),
];

/// The types of SQL, for drivers.
pub(crate) fn types() -> Result<XdbcTypeInfoData> {
    let mut known = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, column_size, quoted) in TYPES {
        let (sql_data_type, datetime_subcode) = match data_type {
            XdbcDataType::XdbcDate => (XdbcDataType::XdbcDatetime, Some(DATE)),
            XdbcDataType::XdbcTime => (XdbcDataType::XdbcDatetime, Some(TIME)),
            XdbcDataType::XdbcTimestamp => (XdbcDataType::XdbcDatetime, Some(TIMESTAMP)),
            other => (other, None),
        };
        let is_number = !quoted && name != "BOOLEAN";
        let quote = quoted.then(|| "'".to_owned());
        known.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size,
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            create_params: (name == "DECIMAL")
                .then(|| vec!["precision".to_owned(), "scale".to_owned()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "TEXT",
            searchable: Searchable::Full,
            unsigned_attribute: is_number.then(|| name.ends_with("UNSIGNED")),
            fixed_prec_scale: false,
            auto_increment: is_number.then_some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: (name == "DECIMAL").then_some(0),
            maximum_scale: (name == "DECIMAL").then_some(76),
            sql_data_type,
            datetime_subcode,
            num_prec_radix: is_number.then_some(if name == "DECIMAL" { 10 } else { 2 }),
            interval_precision: None,
        });
    }
    known.build()
}

/// The number that ODBC has for dates, under another name.
const DATE: XdbcDatetimeSubcode = XdbcDatetimeSubcode::XdbcSubcodeYear;
const TIME: XdbcDatetimeSubcode = XdbcDatetimeSubcode::XdbcSubcodeTime;
const TIMESTAMP: XdbcDatetimeSubcode = XdbcDatetimeSubcode::XdbcSubcodeTimestamp;
