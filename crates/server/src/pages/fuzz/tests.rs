//! What is refused from the first byte on would try nothing: the corpus is answered.

use std::fs;
use std::path::Path;

use super::{FEW_BYTES, answers};

fn answered(name: &str, at_a_time: usize) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http");
    let bytes = fs::read(Path::new(folder).join(name)).unwrap();
    String::from_utf8(answers(&bytes, at_a_time)).unwrap()
}

#[test]
fn requests_of_the_corpus_are_answered() {
    for at_a_time in [usize::MAX, FEW_BYTES] {
        for (name, status, page) in [
            ("absolute", "HTTP/1.1 200 ", "alive\n"),
            ("metrics", "HTTP/1.1 200 ", "a_figure 1\n"),
            ("old", "HTTP/1.0 200 ", "LazyBase\n"),
            ("ready", "HTTP/1.1 200 ", "ready\n"),
            ("with-a-body", "HTTP/1.1 405 ", "\r\n\r\n"),
        ] {
            let told = answered(name, at_a_time);
            assert!(told.starts_with(status), "{name}: {told}");
            assert!(told.contains(page), "{name}: {told}");
        }
        let several = answered("several", at_a_time);
        assert_eq!(several.matches("HTTP/1.1 ").count(), 4, "{several}");
    }
}
