//! Tests of `figures`.

use super::{bytes, counted, micros, quantile, thousands};

#[test]
fn numbers_are_readable() {
    assert_eq!(thousands(0), "0");
    assert_eq!(thousands(999), "999");
    assert_eq!(thousands(1_000), "1,000");
    assert_eq!(thousands(1_234_567), "1,234,567");
    assert_eq!(bytes(1023), "1023 B");
    assert_eq!(bytes(1536), "1.5 KiB");
    assert_eq!(bytes(1 << 20), "1.0 MiB");
    assert_eq!(counted(1, "row"), "1 row");
    assert_eq!(counted(2_000, "batch"), "2,000 batches");
    assert_eq!(micros(85), "85 us");
    assert_eq!(micros(0), "0 s");
    assert_eq!(micros(1_230), "1.23 ms");
    assert_eq!(micros(17_440), "17.4 ms");
    assert_eq!(micros(999_499), "999 ms");
    assert_eq!(micros(999_999), "1.00 s");
    assert_eq!(micros(3_400_000), "3.40 s");
    assert_eq!(micros(61_000_000), "61.0 s");
}

#[test]
fn quantiles_are_of_the_nearest_rank() {
    let mut samples: Vec<u64> = (1..=100).rev().collect();
    assert_eq!(quantile(&mut samples, 0.5), 50);
    assert_eq!(quantile(&mut samples, 0.99), 99);
    assert_eq!(quantile(&mut samples, 1.0), 100);
    assert_eq!(quantile(&mut [7], 0.01), 7);
    assert_eq!(quantile(&mut [], 0.5), 0);
}
