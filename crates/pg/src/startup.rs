//! How a connection begins: it is encrypted where the server can, a cancel request is passed on,
//! and everybody else is told what holds here.
//!
//! ```text
//!   TLS at once (PostgreSQL 17) -> handshake, with the protocol's name
//!   SSLRequest                  -> S, handshake | N
//!   GSSENCRequest               -> N
//!   CancelRequest               -> the statement of another connection ends; so does this one
//!   Startup                     -> database and settings are looked at -> ready
//! ```

use std::collections::BTreeMap;

use bytes::{Buf, BytesMut};
use lazybase_model::{Error, Result};
use lazybase_query::text_form::IntervalStyle;
use lazybase_query::{Notice, Session, zone_notice};
use lazybase_tls::Tls;
use pgwire::messages::startup::{NegotiateProtocolVersion, Startup};
use pgwire::messages::{DecodeContext, Message};

use crate::input::{Gone, Wire};
use crate::messages::broken;

/// The name of the protocol in TLS.
pub(crate) const PROTOCOL: &str = "postgresql";

/// The one database.
pub(crate) const DATABASE: &str = "lazybase";

/// Databases that every server of PostgreSQL has: tools connect to them to list databases, or to
/// make roles, where nobody names another one. There is none of them here, and the one database is
/// meant.
const ALIASES: [&str; 2] = ["postgres", "template1"];

/// The longest message before a connection stands, as PostgreSQL has it.
pub(crate) const STARTUP_BYTES_MAX: usize = 10_000;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// What a new connection wants.
pub(crate) enum Wish {
    /// A session, with these parameters.
    Session(Parameters),
    /// That the statement of another connection ends.
    Cancel { pid: i32, key: u32 },
}

/// Hears what a new connection wants.
///
/// # Errors
/// `Gone` when it leaves first; an error inside for what is no beginning.
pub(crate) async fn wish(wire: &mut Wire, tls: Option<&Tls>) -> Result<Result<Wish>, Gone> {
    if let Some(tls) = tls
        && wire.begins_encrypted().await?
    {
        wire.encrypt(tls).await?;
        // Nothing but its name tells that what comes is this protocol.
        if wire.protocol() != Some(PROTOCOL.as_bytes()) {
            return Err(Gone);
        }
    }
    // Each kind of encryption may be asked for once.
    for _ in 0..3 {
        let packet = match packet(wire).await? {
            Ok(packet) => packet,
            Err(error) => return Ok(Err(error)),
        };
        let code = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        match code {
            SSL_REQUEST if tls.is_some() && !wire.is_encrypted() => {
                if !wire.input.is_empty() {
                    return Ok(Err(broken("data came before the connection was encrypted")));
                }
                wire.out.extend_from_slice(b"S");
                wire.flush().await?;
                if let Some(tls) = tls {
                    wire.encrypt(tls).await?;
                }
            }
            SSL_REQUEST | GSS_REQUEST => {
                wire.out.extend_from_slice(b"N");
                wire.flush().await?;
            }
            CANCEL_REQUEST if packet.len() == 16 => {
                let (mut pid, mut key) = (&packet[8..12], &packet[12..16]);
                let (pid, key) = (pid.get_i32(), key.get_u32());
                return Ok(Ok(Wish::Cancel { pid, key }));
            }
            _ => return Ok(parameters(wire, packet)),
        }
    }
    Ok(Err(broken("encryption is asked for again and again")))
}

/// A whole message of those that come without a first byte.
async fn packet(wire: &mut Wire) -> Result<Result<BytesMut>, Gone> {
    loop {
        if let Some(length) = wire.input.first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if !(8..=STARTUP_BYTES_MAX).contains(&length) {
                return Ok(Err(broken("this is not how a connection begins")));
            }
            if wire.input.len() >= length {
                return Ok(Ok(wire.input.split_to(length)));
            }
        }
        wire.fill().await?;
    }
}

fn parameters(wire: &mut Wire, packet: BytesMut) -> Result<Wish> {
    let (parameters, lacking) = parsed(packet)?;
    if let Some(options) = lacking {
        wire.put(NegotiateProtocolVersion::new(
            Startup::PROTOCOL_VERSION_3_0,
            options,
        ));
    }
    Ok(Wish::Session(parameters))
}

/// The parameters of a connection, by name.
type Parameters = BTreeMap<String, String>;

/// The parameters in a startup message, and, where it asks for more of the protocol than is spoken
/// here, the options that it names.
pub(crate) fn parsed(mut packet: BytesMut) -> Result<(Parameters, Option<Vec<String>>)> {
    let startup = Startup::decode(&mut packet, &DecodeContext::default());
    let startup = startup.ok().flatten().ok_or_else(|| {
        broken("this version of the protocol is not spoken here")
            .with_hint("version 3 of PostgreSQL's protocol is")
    })?;
    let mut parameters = startup.parameters;
    let options: Vec<String> = parameters
        .keys()
        .filter(|name| name.starts_with("_pq_."))
        .cloned()
        .collect();
    parameters.retain(|name, _| !name.starts_with("_pq_."));
    let lacks = startup.protocol_number_minor > 0 || !options.is_empty();
    Ok((parameters, lacks.then_some(options)))
}

/// The user that a connection names.
///
/// # Errors
/// `Invalid` (28000) where it names none, `NotFound` (3D000) for another database.
pub(crate) fn user(parameters: &Parameters) -> Result<&str> {
    let user = parameters.get("user").filter(|user| !user.is_empty());
    let user =
        user.ok_or_else(|| Error::invalid("the connection names no user").with_sqlstate("28000"))?;
    let database = parameters.get("database").unwrap_or(user);
    if database != DATABASE && !ALIASES.contains(&database.as_str()) {
        return Err(
            Error::not_found(format!("there is no database {database:?}"))
                .with_hint(format!("the database is called {DATABASE}"))
                .with_sqlstate("3D000"),
        );
    }
    Ok(user)
}

/// Sets up a session as the parameters of its connection say, and gives what its user should know
/// of settings that are not followed, these and those of its role.
///
/// # Errors
/// As SET for settings.
pub(crate) fn apply(session: &Session, parameters: &Parameters) -> Result<Vec<Notice>> {
    session.set("lazybase.copy_format", "text")?;
    let unfollowed = session.unfollowed_settings().into_iter();
    let mut unfollowed: Vec<Notice> = unfollowed.map(Notice::warning).collect();
    for (name, value) in parameters {
        match name.to_ascii_lowercase().as_str() {
            "user" | "database" => {}
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => {
                return Err(Error::invalid("there is no replication over this protocol")
                    .with_sqlstate("0A000"));
            }
            "options" => {
                for (name, value) in settings(value)? {
                    unfollowed.extend(set(session, &name.to_ascii_lowercase(), &value)?);
                }
            }
            name => unfollowed.extend(set(session, name, value)?),
        }
    }
    // What the connection asks for is what RESET and DISCARD go back to.
    session.keep_settings();
    Ok(unfollowed)
}

/// Sets what a connection asks for; gives what its user should know of it.
fn set(session: &Session, name: &str, value: &str) -> Result<Option<Notice>> {
    let set = session.set(name, value);
    match name {
        // Drivers send the zone of their machine without being asked to: no reason to turn them
        // away, whatever it is called.
        "timezone" => Ok(zone_notice(value)),
        _ => set.map(|()| None),
    }
}

/// The settings in `-c name=value --name=value`, where a backslash keeps a blank.
pub(crate) fn settings(options: &str) -> Result<Vec<(String, String)>> {
    let (mut words, mut word, mut kept) = (Vec::new(), String::new(), false);
    for c in options.chars() {
        match c {
            c if kept => {
                word.push(c);
                kept = false;
            }
            '\\' => kept = true,
            c if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    let mut settings = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next().map(String::as_str),
            Some(setting) => Some(setting),
            None => word.strip_prefix("--"),
        };
        let pair = setting.and_then(|setting| setting.split_once('='));
        let (name, value) = pair.ok_or_else(|| {
            Error::invalid(format!(
                "the connection's option {word:?} is not understood"
            ))
            .with_hint("write -c name=value")
            .with_sqlstate("22023")
        })?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// What a client was told of its session's settings.
pub(crate) struct Told {
    /// With their values, as they are told.
    pub(crate) settings: Vec<(&'static str, String)>,
    // Of all these, the ones that can change.
    application_name: String,
    reads_only: bool,
    interval_style: IntervalStyle,
    is_superuser: bool,
}

impl Told {
    /// What clients are told when they connect, and again when it changes.
    pub(crate) fn of(session: &Session, user: &str) -> Told {
        let shown = |name| session.setting(name).unwrap_or_default();
        let application_name = shown("application_name");
        let (reads_only, interval_style) = (session.reads_only(), session.interval_style());
        let (_, is_superuser) = session.acts_as();
        let settings = vec![
            ("server_version", shown("server_version")),
            ("server_encoding", "UTF8".to_owned()),
            ("client_encoding", "UTF8".to_owned()),
            ("application_name", application_name.clone()),
            ("DateStyle", shown("datestyle")),
            ("IntervalStyle", interval_style.name().to_owned()),
            ("TimeZone", "UTC".to_owned()),
            ("integer_datetimes", "on".to_owned()),
            ("standard_conforming_strings", "on".to_owned()),
            (
                "default_transaction_read_only",
                on_off(reads_only).to_owned(),
            ),
            ("in_hot_standby", "off".to_owned()),
            ("is_superuser", on_off(is_superuser).to_owned()),
            ("session_authorization", user.to_owned()),
        ];
        Told {
            settings,
            application_name,
            reads_only,
            interval_style,
            is_superuser,
        }
    }

    /// Whether it is so still.
    pub(crate) fn is_so(&self, session: &Session) -> bool {
        session.is_called(&self.application_name)
            && session.reads_only() == self.reads_only
            && session.interval_style() == self.interval_style
            && session.is_superuser() == self.is_superuser
    }
}

fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

#[cfg(test)]
mod tests;
