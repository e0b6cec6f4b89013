//! Tests of `source::mark`.

use lazybase_model::ErrorKind;

use super::{Evidence, Mark, check};

fn mark() -> Mark {
    Mark {
        rows: 10,
        bytes: 100,
        hash: "h".to_owned(),
        footer: "f".to_owned(),
    }
}

fn evidence() -> Evidence {
    Evidence {
        length: 200,
        prefix_hash: Some("h".to_owned()),
        footer: "f".to_owned(),
        ends_at_record: true,
    }
}

#[test]
fn the_same_part_goes_on_and_a_changed_one_is_refused() {
    check(&mark(), &evidence(), "a.csv").unwrap();
    let changes: [fn(&mut Evidence); 4] = [
        |file| file.prefix_hash = None,
        |file| file.prefix_hash = Some("x".to_owned()),
        |file| file.footer = "x".to_owned(),
        |file| file.ends_at_record = false,
    ];
    for change in changes {
        let mut file = evidence();
        change(&mut file);
        let error = check(&mark(), &file, "a.csv").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("a.csv"));
    }
}
