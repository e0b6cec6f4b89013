//! Tests of `source::chunk`.

use super::{Chunks, PrefixHash};

fn chunks(text: &str, quotes: bool, bytes: usize) -> Vec<String> {
    let mut chunks = Chunks::new(text.as_bytes(), quotes, bytes);
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().unwrap() {
        all.push(String::from_utf8(chunk).unwrap());
    }
    all
}

#[test]
fn chunks_end_where_records_end_and_lose_nothing() {
    let text = "a,b\n1,\"x\ny\"\n2,\"q\"\"\n\"\"z\"\n3,c";
    for bytes in 1..40 {
        let all = chunks(text, true, bytes);
        assert_eq!(all.concat(), text, "{bytes}");
        for chunk in &all {
            let quotes = chunk.matches('"').count();
            assert_eq!(quotes % 2, 0, "{bytes}: {chunk:?}");
        }
    }
    assert_eq!(chunks("a\nb\n", false, 1), ["a\n", "b\n"]);
    assert_eq!(
        chunks("{\"a\":\"\\\"\"}\n{}\n", false, 3),
        ["{\"a\":\"\\\"\"}\n", "{}\n"]
    );
    assert!(chunks("", true, 8).is_empty());
}

#[test]
fn the_hash_of_a_prefix_does_not_depend_on_the_steps() {
    let text = b"some bytes\nof\na file";
    let mut whole = PrefixHash::new();
    whole.write(text);
    let mut steps = PrefixHash::new();
    assert_eq!(steps.read(&mut &text[..], 7).unwrap(), Some(b'y'));
    steps.write(&text[7..]);
    assert_eq!((whole.hex(), whole.bytes()), (steps.hex(), steps.bytes()));
    assert_eq!((whole.lines(), steps.lines()), (2, 2));
    assert_eq!(PrefixHash::new().read(&mut &text[..], 100).unwrap(), None);
}
