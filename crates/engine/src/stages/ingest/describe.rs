//! A log file in words, from its bytes alone.

use bytes::Bytes;
use lazybase_model::{Error, Result};

use super::frame::commit::Commit;
use super::frame::{
    FILE_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, HeaderState, log_number, payload_of,
};

/// The frames of a log file in their order, up to where the file's own frames end.
///
/// # Errors
/// `Corrupt` when the file has no header of its own.
pub fn describe_log(name: &str, bytes: &[u8]) -> Result<String> {
    let number = log_number(name)
        .ok_or_else(|| Error::invalid(format!("{name:?} does not name a log file")))?;
    let header = match FileHeader::decode(bytes, number) {
        HeaderState::Valid(header) => header,
        HeaderState::Absent => return Ok("log file, not begun\n".to_owned()),
        HeaderState::Damaged => return Err(Error::corrupt(format!("{name}: damaged header"))),
        HeaderState::Newer(version) => {
            return Err(Error::corrupt(format!("{name}: format {version} is newer")));
        }
    };
    let mut text = format!(
        "log file {number}, identity {:016x}, {} bytes\n",
        header.identity,
        bytes.len()
    );
    let bytes = Bytes::copy_from_slice(bytes);
    let mut offset = FILE_HEADER_BYTES;
    while let Some(frame) = bytes
        .get(offset as usize..)
        .and_then(|rest| FrameHeader::decode(rest, number, offset))
        .filter(|frame| frame.identity == header.identity)
    {
        let end = offset.saturating_add(frame.frame_length());
        let payload = usize::try_from(end)
            .ok()
            .filter(|end| *end <= bytes.len())
            .and_then(|end| payload_of(&bytes.slice(offset as usize..end), &frame).ok());
        text += &format!(
            "{offset}: {} of batch {:016x}, SCU {}, {} bytes of {}{}{}\n",
            match frame.kind {
                FrameKind::Data => "data",
                FrameKind::Commit => "commit",
            },
            frame.batch,
            frame.scu,
            frame.length,
            frame.raw_length,
            condition(&frame, payload.as_deref()),
            if payload.is_some() { "" } else { ", DAMAGED" },
        );
        offset = end;
    }
    text += &format!("frames end at {offset}\n");
    Ok(text)
}

/// Under which number the manifest must name a commit frame, if it must.
fn condition(frame: &FrameHeader, payload: Option<&[u8]>) -> String {
    let commit = payload
        .filter(|_| frame.kind == FrameKind::Commit)
        .and_then(|payload| Commit::decode(payload).ok());
    match commit.and_then(|commit| commit.ddl_batch) {
        Some(number) => format!(", if the manifest names {number}"),
        None => String::new(),
    }
}
