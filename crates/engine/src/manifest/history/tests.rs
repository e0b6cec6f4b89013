//! Times are known for ever, at a bounded price.

use proptest::prelude::*;

use super::*;

fn time(millis: i64) -> ScuTime {
    ScuTime {
        first_ack_micros: millis * 1000 + 7,
        last_ack_micros: millis * 1000 + 900_000,
        batches_through: 1,
    }
}

/// What housekeeping does, in memory: the files' contents beside the history.
fn archive(history: &mut ScuHistory, contents: &mut Vec<Vec<u8>>) -> bool {
    let Some(replaces) = history.due() else {
        return false;
    };
    let kept = contents.len() - replaces;
    let mut millis = Vec::new();
    for bytes in contents.drain(kept..) {
        millis.extend(TimesTail::decode(&bytes).unwrap().millis().unwrap());
    }
    let tail = history.tail.clone().unwrap();
    millis.extend(tail.millis().unwrap());
    let first = history
        .files
        .get(kept)
        .map_or(tail.first, |file| file.first);
    let whole = TimesTail::of(first, &millis).unwrap();
    let bytes = whole.encode().unwrap();
    let file = TimesFile {
        file: format!("segments/{}.times", whole.last),
        first,
        last: whole.last,
        bytes: bytes.len() as u64,
        crc32c: crc32c::crc32c(&bytes),
    };
    history.adopt(&file, replaces).unwrap();
    contents.push(bytes);
    true
}

fn known(history: &ScuHistory, contents: &[Vec<u8>]) -> Vec<i64> {
    let mut millis = Vec::new();
    for (file, bytes) in history.files.iter().zip(contents) {
        let times = TimesTail::decode(bytes).unwrap();
        assert_eq!((times.first, times.last), (file.first, file.last));
        millis.extend(times.millis().unwrap());
    }
    let tail = history.tail.iter();
    millis.extend(tail.flat_map(|tail| tail.millis().unwrap()));
    millis
}

proptest! {
    #[test]
    fn times_are_read_back(
        first in 1_u64..1000,
        millis in prop::collection::vec(any::<i32>(), 2..200),
    ) {
        let millis: Vec<i64> = millis.into_iter().map(|m| i64::from(m) * 1000).collect();
        let tail = TimesTail::of(ScuNumber(first), &millis).unwrap();
        prop_assert_eq!(tail.millis().unwrap(), millis);
        let bytes = tail.encode().unwrap();
        prop_assert_eq!(&TimesTail::decode(&bytes).unwrap(), &tail);
        let json = serde_json::to_string(&tail).unwrap();
        prop_assert_eq!(&serde_json::from_str::<TimesTail>(&json).unwrap(), &tail);
        for length in 0..bytes.len() {
            prop_assert!(TimesTail::decode(&bytes[..length]).is_err());
        }
    }
}

/// A year of SCUs of a second, some milliseconds more or less: few files, and less than two bytes
/// an SCU.
#[test]
fn a_year_of_seconds_takes_few_files_and_two_bytes_an_scu() {
    const SCUS: u64 = 4_000_000;
    let (mut history, mut contents) = (ScuHistory::default(), Vec::new());
    let (mut now, mut seed) = (1_700_000_000_000_i64, 7_u64);
    let mut all = Vec::new();
    for scu in 1..=SCUS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        now += 1000 + (seed >> 60) as i64;
        history.push(ScuNumber(scu), time(now)).unwrap();
        all.push(now);
        archive(&mut history, &mut contents);
    }
    assert!(history.files.len() < 50 + (SCUS / FILE_SCUS_MAX) as usize);
    let bytes: usize = contents.iter().map(Vec::len).sum();
    assert!((bytes as u64) < 2 * SCUS, "{bytes} bytes");
    assert_eq!(known(&history, &contents), all);
    let scu = ScuNumber(123_456);
    let file = history.file_of(scu).unwrap();
    assert!(file.first <= scu && scu <= file.last);
    assert_eq!(history.file_of(ScuNumber(SCUS + 1)), None);
}

#[test]
fn what_does_not_follow_is_refused() {
    let mut history = ScuHistory::default();
    history.push(ScuNumber(5), time(1)).unwrap();
    assert!(history.push(ScuNumber(7), time(2)).is_err());
    history.push(ScuNumber(6), time(2)).unwrap();
    let file = TimesFile {
        file: "segments/x.times".to_owned(),
        first: ScuNumber(4),
        last: ScuNumber(6),
        bytes: 1,
        crc32c: 0,
    };
    assert!(history.clone().adopt(&file, 0).is_err());
    let partly = TimesFile {
        first: ScuNumber(5),
        last: ScuNumber(5),
        ..file
    };
    history.adopt(&partly, 0).unwrap();
    assert_eq!(history.tail.as_ref().unwrap().first, ScuNumber(6));
    assert_eq!(history.tail.unwrap().millis().unwrap(), [2]);
}
