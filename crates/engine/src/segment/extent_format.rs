//! The frame of an extent file: header, extents, index part (`docs/formats/segment-extent.md`).
//!
//! The manifest knows where the index part begins and its checksum, which covers everything to
//! the end of the file; the index holds the checksum of each extent. The header is read by people
//! and by `verify` alone.

use std::sync::Arc;

use arrow::datatypes::DataType;
use bytes::Bytes;
use lazybase_model::{Column, ColumnId, Error, Result, Table, TableId, ViewId};
use serde::{Deserialize, Serialize};

use super::RowLayout;
use super::extent_index::ExtentIndex;
use super::le::{Front, put_u32, put_u64};
use crate::schema::Adapter;

/// The first and the last eight bytes of an extent file.
pub const MAGIC: [u8; 8] = *b"LAZYEXT\n";
/// The version that this code writes, and the newest that it reads. Where SCU numbers differ,
/// version 1 had 8 bytes for each, and version 2 distances of 1, 2 or 4 bytes.
pub const VERSION: u32 = 3;
/// Where the first extent begins.
pub const FILE_HEADER_BYTES: u64 = 16;
/// What of a file's end [`is_file_header`] looks at.
pub(super) const FILE_END_BYTES: u64 = 16;
const FOOTER_BYTES: usize = 48;

/// What the rows of a file are, by ids: names may change.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RowsOf {
    table: TableId,
    view: ViewId,
    columns: Vec<(ColumnId, DataType)>,
    key: Vec<ColumnId>,
}

impl RowsOf {
    fn layout(layout: &RowLayout) -> RowsOf {
        let table = &layout.table;
        let columns = table.columns.iter();
        RowsOf {
            table: table.id,
            view: table.primary.id,
            columns: columns.map(|c| (c.id, c.stored_type())).collect(),
            key: table.primary.key.clone(),
        }
    }

    /// The bytes that describe the rows of a layout.
    pub(super) fn bytes_of(layout: &RowLayout) -> &[u8] {
        layout.described.get_or_init(|| {
            let rows_of = RowsOf::layout(layout);
            serde_json::to_vec(&rows_of).expect("ids and types have a text form")
        })
    }

    /// The layout of the rows that the bytes describe, if they are rows of `layout` under this
    /// definition of the table or an earlier one: `layout` itself where all columns are the same.
    pub(super) fn stored_layout(bytes: &[u8], layout: &Arc<RowLayout>) -> Result<Arc<RowLayout>> {
        if bytes == RowsOf::bytes_of(layout) {
            return Ok(Arc::clone(layout));
        }
        let stored: RowsOf = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt(format!("its columns can't be read: {error}")))?;
        let wanted = RowsOf::layout(layout);
        if stored == wanted {
            return Ok(Arc::clone(layout));
        }
        let wrong = |error: Error| {
            Error::corrupt("its columns are not those of the table").with_detail(format!(
                "{error}; stored are {}",
                String::from_utf8_lossy(bytes)
            ))
        };
        let same = (stored.table, stored.view, &stored.key);
        if same != (wanted.table, wanted.view, &wanted.key) {
            return Err(wrong(Error::corrupt("another table, view or key")));
        }
        let stored = Arc::new(stored.into_layout(&layout.table).map_err(wrong)?);
        Adapter::between(&stored.table, layout).map_err(wrong)?;
        Ok(stored)
    }

    /// The layout of the rows that the bytes describe, with no table to compare them with.
    pub(super) fn layout_alone(bytes: &[u8]) -> Result<RowLayout> {
        let stored: RowsOf = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt(format!("its columns can't be read: {error}")))?;
        let name = stored.table.to_string();
        let mut table = Table::new(stored.table, stored.view, name, Vec::new(), &[]);
        table.primary.key.clone_from(&stored.key);
        stored.into_layout(&table)
    }

    /// The layout of such rows. Columns that the table has no more are named by their ids.
    fn into_layout(self, table: &Table) -> Result<RowLayout> {
        let column = |(id, data_type): (ColumnId, DataType)| {
            let known = table.columns.iter().find(|column| column.id == id);
            let name = known.map_or_else(|| format!("column {}", id.0), |c| c.name.clone());
            Column {
                id,
                nullable: !self.key.contains(&id) || known.is_none_or(|c| c.nullable),
                ..Column::new(name, data_type)
            }
        };
        let columns: Vec<Column> = self.columns.into_iter().map(column).collect();
        let has = |id: &ColumnId| columns.iter().any(|column| column.id == *id);
        if !self.key.iter().all(has) {
            return Err(Error::corrupt("a key column is not there"));
        }
        RowLayout::primary(&Arc::new(Table {
            columns,
            ..table.clone()
        }))
    }
}

/// The first bytes of an extent file.
pub(super) fn file_header() -> Vec<u8> {
    header_of(VERSION)
}

/// Whether bytes are the first ones of an extent file that ends with these: the footer, whose
/// checksum was verified, ends with the version, four bytes of zero and the magic.
pub(super) fn is_file_header(bytes: &[u8], file_end: &[u8]) -> bool {
    let version = Front(file_end).u32();
    version.is_ok_and(|version| bytes == header_of(version))
}

fn header_of(version: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_u32(&mut out, version);
    put_u32(&mut out, 0);
    out
}

/// Everything after the last extent, in a file whose extents end at `index_offset`.
pub(super) fn index_part(
    layout: &RowLayout,
    index: &[u8],
    index_offset: u64,
    rows: u64,
) -> Vec<u8> {
    let rows_of = RowsOf::bytes_of(layout);
    let mut out = Vec::with_capacity(rows_of.len() + index.len() + FOOTER_BYTES);
    out.extend_from_slice(rows_of);
    out.extend_from_slice(index);
    put_u64(&mut out, index_offset);
    put_u64(&mut out, rows_of.len() as u64);
    put_u64(&mut out, index.len() as u64);
    put_u64(&mut out, rows);
    put_u32(&mut out, VERSION);
    put_u32(&mut out, 0);
    out.extend_from_slice(&MAGIC);
    out
}

/// Reads an index part whose checksum was verified: the index, and the layout of its rows.
pub(super) fn parse_index_part(
    part: &Bytes,
    layout: &Arc<RowLayout>,
    index_offset: u64,
    rows: u64,
) -> Result<(ExtentIndex, Arc<RowLayout>)> {
    let footer_at = part.len().checked_sub(FOOTER_BYTES);
    let footer_at = footer_at.ok_or_else(|| Error::corrupt("no room for a footer"))?;
    let mut footer = Front(&part[footer_at..]);
    let stored_offset = footer.u64()?;
    let (rows_of_len, index_len) = (footer.u64()? as usize, footer.u64()? as usize);
    let stored_rows = footer.u64()?;
    let version = footer.u32()?;
    footer.u32()?;
    if footer.0 != MAGIC {
        return Err(Error::corrupt("it is not an extent file"));
    }
    if !(1..=VERSION).contains(&version) {
        return Err(
            Error::corrupt(format!("it has version {version} of the format"))
                .with_detail(format!("this program reads versions up to {VERSION}")),
        );
    }
    let fits = rows_of_len.checked_add(index_len) == Some(footer_at);
    if !fits || stored_offset != index_offset || stored_rows != rows {
        return Err(Error::corrupt("its footer disagrees with the manifest"));
    }
    let stored = RowsOf::stored_layout(&part[..rows_of_len], layout)?;
    let index = ExtentIndex::parse(&part.slice(rows_of_len..footer_at))?;
    let mut next = FILE_HEADER_BYTES;
    for extent in index.iter() {
        if extent.offset != next {
            return Err(Error::corrupt("its extents leave a gap"));
        }
        next += u64::from(extent.stored_len);
    }
    let counted: u64 = index.iter().map(|extent| u64::from(extent.rows)).sum();
    match next == index_offset && counted == rows {
        true => Ok((index, stored)),
        false => Err(Error::corrupt(
            "its extents are not those the footer counts",
        )),
    }
}

/// What a whole file says of itself: its rows as stored, its index, and where the index part
/// begins.
pub(super) fn open_alone(file: &Bytes) -> Result<(Bytes, ExtentIndex, u64)> {
    let footer_at = file.len().checked_sub(FOOTER_BYTES);
    let footer_at = footer_at.ok_or_else(|| Error::corrupt("no room for a footer"))?;
    let mut footer = Front(&file[footer_at..]);
    let index_offset = footer.u64()? as usize;
    let (rows_of_len, index_len) = (footer.u64()? as usize, footer.u64()? as usize);
    footer.u64()?;
    footer.u32()?;
    footer.u32()?;
    let rows_of_end = index_offset.checked_add(rows_of_len);
    let end = rows_of_end.and_then(|at| at.checked_add(index_len));
    if footer.0 != MAGIC || end != Some(footer_at) {
        return Err(Error::corrupt("it is not an extent file"));
    }
    let rows_of_end = index_offset + rows_of_len;
    let index = ExtentIndex::parse(&file.slice(rows_of_end..footer_at))?;
    let rows_of = file.slice(index_offset..rows_of_end);
    Ok((rows_of, index, index_offset as u64))
}
