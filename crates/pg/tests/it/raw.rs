//! A client that speaks the protocol message by message, in any order, as no driver would.

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::served::Served;

/// A message with its first byte and its length.
pub(crate) fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

/// How a session begins.
pub(crate) fn startup(user: &str) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    body.extend_from_slice(format!("user\0{user}\0database\0lazybase\0\0").as_bytes());
    unframed(&body)
}

/// A message of those that come without a first byte.
fn unframed(body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u32 + 4).to_be_bytes().to_vec();
    message.extend_from_slice(body);
    message
}

/// A connection that stands.
pub(crate) struct Raw {
    stream: TcpStream,
    input: BytesMut,
    out: Vec<u8>,
    /// What a cancel request names it by.
    pub(crate) key: Vec<u8>,
}

/// What the server has said, up to ReadyForQuery or the end of the connection.
#[derive(Debug, Default)]
pub(crate) struct Told(Vec<(u8, Vec<u8>)>);

impl Told {
    /// The messages' first bytes.
    pub(crate) fn kinds(&self) -> String {
        self.0.iter().map(|(kind, _)| char::from(*kind)).collect()
    }

    /// The tags of what was done.
    pub(crate) fn tags(&self) -> Vec<String> {
        self.of(b'C')
            .map(|body| String::from_utf8_lossy(&body[..body.len() - 1]).into_owned())
            .collect()
    }

    /// A field of each error: `C` is the SQLSTATE.
    pub(crate) fn errors(&self, field: u8) -> Vec<String> {
        self.field(b'E', field)
    }

    /// The words of each notice.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.of_notices(b'M')
    }

    /// A field of each notice: `S` is the severity.
    pub(crate) fn of_notices(&self, field: u8) -> Vec<String> {
        self.field(b'N', field)
    }

    fn field(&self, kind: u8, field: u8) -> Vec<String> {
        let value = |body: &Vec<u8>| {
            let mut fields = body.split(|byte| *byte == 0);
            let value = fields.find_map(|text| text.strip_prefix(&[field]));
            String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
        };
        self.of(kind).map(value).collect()
    }

    /// The types of the columns, by their numbers.
    pub(crate) fn column_types(&self) -> Vec<u32> {
        let mut types = Vec::new();
        for body in self.of(b'T') {
            let mut body = body.as_slice();
            for _ in 0..body.get_u16() {
                let end = body.iter().position(|byte| *byte == 0).unwrap();
                // Behind the name the table and the place in it, behind the type what it says more.
                body.advance(end + 7);
                types.push(body.get_u32());
                body.advance(8);
            }
        }
        types
    }

    /// The types of the parameters, by their numbers.
    pub(crate) fn parameter_types(&self) -> Vec<u32> {
        let types = |body: &Vec<u8>| {
            let mut body = body.as_slice();
            let count = body.get_u16();
            (0..count).map(|_| body.get_u32()).collect::<Vec<u32>>()
        };
        self.of(b't').flat_map(types).collect()
    }

    /// The rows, their cells as texts.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let row = |body: &Vec<u8>| {
            let mut body = body.as_slice();
            let count = body.get_u16();
            let mut cell = |_| match body.get_i32() {
                -1 => "-".to_owned(),
                length => {
                    let (cell, rest) = body.split_at(length as usize);
                    body = rest;
                    String::from_utf8_lossy(cell).into_owned()
                }
            };
            (0..count).map(&mut cell).collect()
        };
        self.of(b'D').map(row).collect()
    }

    /// How the transaction stands: `I`, `T` or `E`; nothing where the connection has ended.
    pub(crate) fn status(&self) -> Option<char> {
        let status = self.of(b'Z').next_back();
        status.map(|body| char::from(body[0]))
    }

    fn of(&self, kind: u8) -> impl DoubleEndedIterator<Item = &Vec<u8>> {
        let of = self.0.iter().filter(move |(known, _)| *known == kind);
        of.map(|(_, body)| body)
    }
}

impl Raw {
    /// Connects.
    pub(crate) async fn new(served: &Served) -> Raw {
        let mut raw = Raw::sending(served, startup("x")).await;
        let told = raw.ready().await;
        assert_eq!(told.status(), Some('I'), "{told:?}");
        raw.key = told.of(b'K').next().unwrap().clone();
        raw
    }

    /// What the server says to the beginning of a session.
    pub(crate) async fn begin(served: &Served, body: &[u8]) -> Told {
        Raw::sending(served, unframed(body)).await.ready().await
    }

    async fn sending(served: &Served, out: Vec<u8>) -> Raw {
        Raw {
            stream: TcpStream::connect(served.address).await.unwrap(),
            input: BytesMut::new(),
            out,
            key: Vec::new(),
        }
    }

    /// What the server says to any bytes, up to ReadyForQuery or the end.
    pub(crate) async fn answer(served: &Served, bytes: &[u8]) -> Told {
        let mut raw = Raw::sending(served, bytes.to_vec()).await;
        raw.send().await;
        // No more come: a server that waits for them ends the connection.
        drop(raw.stream.shutdown().await);
        raw.until(0).await
    }

    /// Appends a message to what will be sent.
    pub(crate) fn put(&mut self, kind: u8, body: &[u8]) -> &mut Raw {
        self.out.extend_from_slice(&framed(kind, body));
        self
    }

    pub(crate) fn query(&mut self, sql: &str) -> &mut Raw {
        self.put(b'Q', format!("{sql}\0").as_bytes())
    }

    pub(crate) fn parse(&mut self, name: &str, sql: &str) -> &mut Raw {
        self.put(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
    }

    /// Binds without values; rows come as texts.
    pub(crate) fn bind(&mut self, portal: &str, statement: &str) -> &mut Raw {
        self.put(
            b'B',
            format!("{portal}\0{statement}\0\0\0\0\0\0\0").as_bytes(),
        )
    }

    pub(crate) fn describe(&mut self, statement: &str) -> &mut Raw {
        self.put(b'D', format!("S{statement}\0").as_bytes())
    }

    pub(crate) fn execute(&mut self, portal: &str, rows_max: i32) -> &mut Raw {
        let mut body = format!("{portal}\0").into_bytes();
        body.put_i32(rows_max);
        self.put(b'E', &body)
    }

    pub(crate) fn sync(&mut self) -> &mut Raw {
        self.put(b'S', b"")
    }

    /// Parse, Bind and Execute of one statement.
    pub(crate) fn run(&mut self, sql: &str) -> &mut Raw {
        self.parse("", sql).bind("", "").execute("", 0)
    }

    /// Sends what was put.
    pub(crate) async fn send(&mut self) {
        let out = std::mem::take(&mut self.out);
        // The server may have ended the connection: what it said is still read.
        drop(self.stream.write_all(&out).await);
    }

    /// Ends the connection without a word.
    pub(crate) fn vanish(self) {
        drop(self.stream);
    }

    /// Sends what was put, and reads up to ReadyForQuery or the end.
    pub(crate) async fn ready(&mut self) -> Told {
        self.until(b'Z').await
    }

    /// The same up to any kind of message.
    pub(crate) async fn until(&mut self, last: u8) -> Told {
        self.send().await;
        let mut told = Told::default();
        loop {
            while self.input.len() < 5 || self.input.len() < self.length() {
                let reading = self.stream.read_buf(&mut self.input);
                let limit = std::time::Duration::from_secs(60);
                let read = tokio::time::timeout(limit, reading).await;
                match read.unwrap_or_else(|_| panic!("the server is silent after {told:?}")) {
                    Ok(0) | Err(_) => return told,
                    Ok(_) => {}
                }
            }
            let length = self.length();
            let message = self.input.split_to(length);
            told.0.push((message[0], message[5..].to_vec()));
            if message[0] == last {
                return told;
            }
        }
    }

    /// Asks the server to end what this connection does, again and again until it has said this:
    /// a request that comes before there is anything to end is forgotten.
    pub(crate) async fn cancelled(&mut self, served: &Served, last: u8) -> Told {
        let key = self.key.clone();
        let asking = async {
            for _ in 0..300 {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                Raw::cancel(&key, served).await;
            }
        };
        tokio::select! {
            told = self.until(last) => told,
            () = asking => panic!("nobody hears the request"),
        }
    }

    fn length(&self) -> usize {
        u32::from_be_bytes(self.input[1..5].try_into().unwrap()) as usize + 1
    }

    /// Asks the server to end what this connection does.
    pub(crate) async fn cancel(key: &[u8], served: &Served) {
        let mut message = 16_u32.to_be_bytes().to_vec();
        message.extend_from_slice(&80_877_102_u32.to_be_bytes());
        message.extend_from_slice(key);
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(&message).await.unwrap();
        drop(stream.read(&mut [0]).await);
    }
}
