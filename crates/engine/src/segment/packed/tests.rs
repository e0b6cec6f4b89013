//! What is packed comes back, in no more bits than it is said to take.

use lazybase_model::ErrorKind;
use proptest::prelude::*;

use super::*;

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    }
}

/// SCU numbers as they lie in an extent: runs of some rows, spread over a span of any width.
fn scus() -> impl Strategy<Value = Vec<u64>> {
    let runs = prop::collection::vec((any::<u64>(), 1usize..40), 1..60);
    (runs, 0u32..64, any::<bool>(), any::<u64>()).prop_map(|(runs, shift, alone, first)| {
        let mut scus = Vec::new();
        for (number, rows) in runs {
            let scu = first.saturating_add(number >> shift);
            scus.resize(scus.len() + if alone { 1 } else { rows }, scu);
        }
        scus
    })
}

/// The bytes that numbers take, one a row or one a run, and the bits of a number.
fn expected_bytes(scus: &[u64]) -> (usize, usize) {
    let span = scus.iter().max().unwrap() - scus.iter().min().unwrap();
    let bits = (0..64u32).filter(|bit| span >> *bit != 0).count();
    let runs = 1 + scus.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let (each, in_runs) = (scus.len() * bits, scus.len() + runs * bits);
    let bytes = match in_runs < each {
        true => scus.len().div_ceil(8) + (runs * bits).div_ceil(8),
        false => each.div_ceil(8),
    };
    (bytes, bits)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_packed_comes_back(scus in scus()) {
        let (expected, bits) = expected_bytes(&scus);
        prop_assume!(bits > 0);
        let mut packed = vec![7];
        let (how, newest) = pack(&scus, &mut packed);
        prop_assert!(how != 0);
        prop_assert_eq!(packed.remove(0), 7);
        prop_assert_eq!(packed.len(), expected);
        let distances = unpack(how, scus.len(), &packed).unwrap();
        let back: Vec<u64> = distances.iter().map(|far| newest - far).collect();
        prop_assert_eq!(back, scus);
    }

    /// Bytes that lie give an error or other numbers, as many as there are rows.
    #[test]
    fn bytes_that_lie_are_survived(
        how in any::<u8>(),
        rows in 0usize..100,
        packed in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(distances) = unpack(how, rows, &packed) {
            prop_assert_eq!(distances.len(), rows);
        }
    }
}

#[test]
fn bytes_of_other_rows_are_refused() {
    let corrupt = |how, rows, packed: &[u8]| {
        let refused = unpack(how, rows, packed).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    };
    corrupt(0, 1, &[0]);
    corrupt(65, 1, &[0; 9]);
    corrupt(IN_RUNS, 1, &[1]);
    corrupt(3, 8, &[0; 2]);
    corrupt(3, 8, &[0; 4]);
    corrupt(3, usize::MAX, &[0; 4]);
    // Two runs of which one is missing; a first row that is of no run.
    corrupt(8 | IN_RUNS, 4, &[0b0101, 9]);
    corrupt(8 | IN_RUNS, 4, &[0b0100, 9]);
    assert_eq!(
        unpack(8 | IN_RUNS, 4, &[0b0101, 9, 6]).unwrap(),
        [9, 9, 6, 6]
    );
    assert_eq!(
        unpack(3, 5, &[0b1000_1000, 0b0100_0110]).unwrap(),
        [0, 1, 2, 3, 4]
    );
}
