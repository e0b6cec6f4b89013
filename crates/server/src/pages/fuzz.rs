//! Requests over HTTP, as a function over bytes. See `crate::fuzz`.
//!
//! ```text
//!   bytes -> a client that sends them, waits for its answers and leaves -> the server -> the pages
//! ```
//!
//! What the pages say does not depend on the bytes, so that they tell of no database.

use std::future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::serve::IncomingStream;
use bytes::Bytes;
use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::{Figures, Guard, Health, Peer, Phase, router};
use crate::wall;

#[cfg(test)]
mod tests;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The bytes that come at a time where they drip in.
const FEW_BYTES: usize = 7;
/// What is longer comes at once alone: each time more of a request is there it is read again.
const DRIPPING_BYTES_MAX: usize = 4 << 10;

/// The bytes of a connection, which come at once and in drips: what is answered is a status and a
/// page, and never that the server has failed.
pub(crate) fn read_requests(bytes: &[u8]) {
    for at_a_time in [usize::MAX, FEW_BYTES] {
        if at_a_time == usize::MAX || bytes.len() <= DRIPPING_BYTES_MAX {
            are_answers(bytes, &answers(bytes, at_a_time));
        }
    }
}

/// What HTTP/2 begins with: its answers are frames.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";

/// Whether these are answers of HTTP/1 to what was asked.
fn are_answers(asked: &[u8], answers: &[u8]) {
    if answers.is_empty() || asked.starts_with(HTTP2) {
        return;
    }
    let told = String::from_utf8_lossy(answers);
    assert!(told.starts_with("HTTP/1."), "{told}");
    for status in told.split("HTTP/1.").skip(1).map(|answer| answer.get(2..5)) {
        let status: Option<u16> = status.and_then(|status| status.parse().ok());
        assert!(status.is_some_and(|status| status < 500), "{told}");
    }
}

/// What a client is sent that sends these bytes, so many at a time.
fn answers(bytes: &[u8], at_a_time: usize) -> Vec<u8> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let made = || Builder::new_current_thread().enable_time().build().ok();
    let Some(runtime) = RUNTIME.get_or_init(made) else {
        return Vec::new();
    };
    let (heard, ends) = oneshot::channel();
    let asked = Arc::new(Asked::default());
    let client = Client {
        unsent: Bytes::copy_from_slice(bytes),
        at_a_time,
        has_waited: false,
        asked: Arc::clone(&asked),
        answers: Vec::new(),
        heard: Some(heard),
    };
    let heard = runtime.block_on(async {
        tokio::select! {
            biased;
            heard = ends => heard.ok(),
            () = serve(client, asked) => None,
            () = wall::sleep(PATIENCE) => None,
        }
    });
    let Some(heard) = heard else {
        panic!("a connection does not end");
    };
    if heard.panicked {
        // What the panic said was told when it came.
        resume_unwind(Box::new("a connection panicked"));
    }
    heard.answers
}

/// Serves one client.
async fn serve(client: Client, asked: Arc<Asked>) {
    let health = Health::default();
    health.enter(Phase::Ready);
    let guard = Guard {
        health,
        asks: false,
        trusts_loopback: true,
    };
    let figures: Figures = Arc::new(|_: &Health| "a_figure 1\n".to_owned());
    let pages = router(guard, figures).layer(middleware::from_fn_with_state(asked, counted));
    let served = pages.into_make_service_with_connect_info::<Peer>();
    // It ends with whoever waits for it.
    drop(axum::serve(Only(Some(client)), served).await);
}

/// How many requests are not answered yet.
#[derive(Default)]
struct Asked {
    under_way: AtomicUsize,
    client: AtomicWaker,
}

/// A request that is not answered yet.
struct UnderWay(Arc<Asked>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.client.wake();
    }
}

async fn counted(State(asked): State<Arc<Asked>>, request: Request, next: Next) -> Response {
    asked.under_way.fetch_add(1, Ordering::SeqCst);
    let _under_way = UnderWay(asked);
    next.run(request).await
}

/// Where one client comes in, and nobody else.
struct Only(Option<Client>);

/// Where the client is.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

impl axum::serve::Listener for Only {
    type Io = Client;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Client, SocketAddr) {
        match self.0.take() {
            Some(client) => (client, ADDRESS),
            None => future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(ADDRESS)
    }
}

impl Connected<IncomingStream<'_, Only>> for Peer {
    fn connect_info(_: IncomingStream<'_, Only>) -> Peer {
        Peer {
            is_local: true,
            certified: None,
        }
    }
}

/// A client as its connection: it sends all that it has, waits until nothing that it asked is
/// under way, and leaves.
struct Client {
    unsent: Bytes,
    at_a_time: usize,
    /// Whether the server was once left without bytes: by then it may have a request that nobody
    /// has counted.
    has_waited: bool,
    asked: Arc<Asked>,
    answers: Vec<u8>,
    heard: Option<oneshot::Sender<Heard>>,
}

/// What a client has had of its connection.
struct Heard {
    answers: Vec<u8>,
    panicked: bool,
}

impl Drop for Client {
    fn drop(&mut self) {
        let heard = Heard {
            answers: std::mem::take(&mut self.answers),
            panicked: thread::panicking(),
        };
        if let Some(ends) = self.heard.take() {
            // Who does not wait any more has said why.
            drop(ends.send(heard));
        }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let client = self.get_mut();
        if !client.unsent.is_empty() {
            let most = client.at_a_time.min(client.unsent.len());
            let sent = client.unsent.split_to(most.min(buffer.remaining()));
            buffer.put_slice(&sent);
            return Poll::Ready(Ok(()));
        }
        client.asked.client.register(cx.waker());
        if !client.has_waited {
            client.has_waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match client.asked.under_way.load(Ordering::SeqCst) {
            0 => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().answers.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
