//! What people see at a terminal: `lazybase status --url` draws, draws again, and leaves it as it
//! was. The terminal is a pseudo one, of util-linux' `script`.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::run::Place;
use crate::server::{PATIENCE, Server};
use crate::skips::skip;

/// What switches to the other screen, and back; what hides the cursor, and shows it.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";
const OWN_SCREEN: &str = "\u{1b}[?1049l";
const HIDDEN: &str = "\u{1b}[?25l";
const SHOWN: &str = "\u{1b}[?25h";

/// A terminal, and what stands on it so far.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Runs a shell's lines at a terminal; `None` where there is no `script`.
    fn run(lines: &str) -> Option<Terminal> {
        let mut script = Command::new("script");
        script
            .args(["--quiet", "--flush", "--return", "--command", lines])
            .arg("/dev/null");
        script.env("SHELL", "/bin/sh").env_remove("LAZYBASE_URL");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = script.spawn() else {
            skip("pages of a terminal: there is no script(1) on this machine");
            return None;
        };
        let keys = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let seen: Arc<Mutex<String>> = Arc::default();
        let sees = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                sees.lock().unwrap().push_str(&text);
            }
        });
        Some(Terminal { child, keys, seen })
    }

    /// The page about a server, between two lines that tell how the terminal is set.
    fn of_page(server: &Server) -> Option<Terminal> {
        let binary = env!("CARGO_BIN_EXE_lazybase");
        Terminal::run(&format!(
            "stty rows 60 cols 160; echo before $(stty -g); \
             '{binary}' status --url 'postgresql://me:hush@{}/lazybase'; echo ended with $?; \
             echo after $(stty -g); echo over",
            server.pg
        ))
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until these words stand there.
    fn shows(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.seen().contains(words) {
            assert!(Instant::now() < until, "no {words:?} in {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end of the shell's lines: the page was left, with this status, and the
    /// terminal is as it was.
    fn gives_back(mut self, status: i32) -> String {
        self.shows("\nover");
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it does not end: {}", self.seen());
            std::thread::sleep(Duration::from_millis(20));
        }
        let seen = self.seen();
        let said = |word: &str| {
            let line = seen.lines().find_map(|line| line.strip_prefix(word));
            line.unwrap_or_else(|| panic!("no {word:?} in {seen:?}"))
                .trim()
                .to_owned()
        };
        assert_eq!(said("before "), said("after "), "{seen:?}");
        let last = |word: &str| {
            seen.rfind(word)
                .unwrap_or_else(|| panic!("{word:?}: {seen:?}"))
        };
        assert!(last(OTHER_SCREEN) < last(OWN_SCREEN), "{seen:?}");
        assert!(last(HIDDEN) < last(SHOWN), "{seen:?}");
        assert!(seen.contains(&format!("ended with {status}")), "{seen:?}");
        assert!(!seen.contains("hush"), "the password is shown: {seen:?}");
        seen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn the_page_is_drawn_again_and_left_by_a_key() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    for keys in [&b"q"[..], b"\x03", b"xyz\r\x1b[AQ"] {
        let Some(mut page) = Terminal::of_page(&server) else {
            return;
        };
        page.shows(&format!("me at {}    q leaves", server.pg));
        page.shows("writers are not held back");
        // What comes later is there by itself.
        assert!(!page.seen().contains("made_later"));
        server
            .rows("CREATE TABLE made_later (k INT PRIMARY KEY); INSERT INTO made_later VALUES (1)");
        page.shows("made_later");
        page.press(keys);
        let seen = page.gives_back(0);
        assert!(!seen.contains("xyz"), "keys are shown: {seen:?}");
        server.rows("DROP TABLE made_later");
    }
    server.stop();
}

#[test]
fn a_page_whose_server_ends_gives_the_terminal_back_and_says_why() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let Some(page) = Terminal::of_page(&server) else {
        return;
    };
    page.shows("q leaves");
    server.stop();
    let seen = page.gives_back(1);
    let told = seen.rsplit(OWN_SCREEN).next().unwrap();
    assert!(told.contains("error:"), "{seen:?}");
}
