//! A running `lazybase serve`: where it listens, what it said, and its HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::http::get;
use crate::run::{Place, Said, alone};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    pub(crate) pg: String,
    pub(crate) http: String,
}

impl Server {
    /// Starts a server over the place's database, on ports that are free.
    pub(crate) fn start(place: &Place, args: &[&str]) -> Server {
        Server::spawn(&mut Server::command(place, args))
    }

    /// What starts such a server.
    pub(crate) fn command(place: &Place, args: &[&str]) -> Command {
        let listen = [
            "serve",
            "--pg-listen",
            "127.0.0.1:0",
            "--flight-listen",
            "127.0.0.1:0",
            "--http-listen",
            "127.0.0.1:0",
        ];
        place.command(&[&listen, args].concat())
    }

    pub(crate) fn spawn(command: &mut Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                hears.lock().unwrap().push(line);
            }
        });
        let mut server = Server {
            child,
            said,
            pg: String::new(),
            http: String::new(),
        };
        server.line("ready; Ctrl-C stops");
        let told = server.line("PostgreSQL clients: ");
        let port = told.split(" -p ").nth(1).unwrap();
        server.pg = format!("127.0.0.1:{}", port.split(' ').next().unwrap());
        let told = server.line("HTTP: ");
        if let Some((_, rest)) = told.split_once("http://") {
            server.http = rest.split('/').next().unwrap().to_owned();
        }
        server
    }

    /// The first line that holds these words, once there is one.
    pub(crate) fn line(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = self.said.lock().unwrap().clone();
            if let Some(line) = said.iter().find(|line| line.contains(words)) {
                return line.clone();
            }
            assert!(Instant::now() < until, "{words:?} is not in {said:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Everything that it said so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("postgresql://me@{}/lazybase", self.pg)
    }

    /// `lazybase sql --url` with these arguments.
    pub(crate) fn sql(&self, args: &[&str]) -> Said {
        alone(&[&["sql", "--url", &self.url()], args].concat())
    }

    /// What a statement gives, which must succeed.
    pub(crate) fn rows(&self, sql: &str) -> String {
        let said = self.sql(&["--format", "csv", "-q", "-c", sql]);
        assert!(said.ok, "{sql}: {}", said.err);
        said.out
    }

    /// Status and text of a page.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        get(&self.http, path)
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A signal by its name, such as TERM.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let mut kill = Command::new("kill");
        let told = kill.args([&format!("-{name}"), &id]).status();
        assert!(told.unwrap().success());
    }

    /// Told to stop, it must end well.
    pub(crate) fn stop(mut self) -> Vec<String> {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success(), "{:?}", self.said());
        self.line("stopped: ");
        self.said()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
