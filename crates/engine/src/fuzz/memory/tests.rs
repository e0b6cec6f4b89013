//! Whatever is taken, made larger or smaller, refused or given back: what is counted is what a
//! model says, and the bytes are there.

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::{HELD, most_held};

/// What is done with some blocks of memory; sizes are numbers of parts.
#[derive(Debug, Clone)]
enum Op {
    Take { parts: usize, zeroed: bool },
    Resize { block: usize, parts: usize },
    AskTooMuch { block: usize },
    Give { block: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let block = any::<usize>;
    // Large ones of wide parts are mapped by the system, each by itself.
    let large: usize = if cfg!(miri) { 500 } else { 1 << 14 };
    let parts = || prop_oneof![4 => 1..300_usize, 1 => Just(large)];
    prop_oneof![
        3 => (parts(), any::<bool>()).prop_map(|(parts, zeroed)| Op::Take { parts, zeroed }),
        3 => (block(), parts()).prop_map(|(block, parts)| Op::Resize { block, parts }),
        1 => block().prop_map(|block| Op::AskTooMuch { block }),
        2 => block().prop_map(|block| Op::Give { block }),
    ]
}

/// More bytes than there are addresses.
const TOO_MUCH: usize = 1 << 60;

/// A part that is aligned wider than the system's allocator aligns by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
struct Wide(u8);

/// The bytes of all blocks: they are as long as they can be.
fn bytes_of<T>(blocks: &[Vec<T>]) -> usize {
    let parts: usize = blocks.iter().map(Vec::capacity).sum();
    parts * size_of::<T>()
}

/// Does it, and says how many bytes counted at once.
fn done<T: Copy + PartialEq>(op: &Op, blocks: &mut Vec<Vec<T>>, zero: T, mark: T) -> usize {
    let held = bytes_of(blocks);
    let among = blocks.len().max(1);
    match *op {
        Op::Take { parts, zeroed } => {
            let mut block = match zeroed {
                true => vec![zero; parts],
                false => Vec::with_capacity(parts),
            };
            assert!(block.iter().all(|part| *part == zero));
            block.clear();
            block.resize(parts, mark);
            blocks.push(block);
            held + parts * size_of::<T>()
        }
        Op::Resize { block, parts } => {
            let Some(block) = blocks.get_mut(block % among) else {
                return held;
            };
            let before = block.len();
            block.truncate(parts);
            block.shrink_to_fit();
            block.reserve_exact(parts - block.len());
            assert!(block.iter().all(|part| *part == mark));
            block.resize(parts, mark);
            // Both are there while one is copied into the other.
            match parts == before {
                true => held,
                false => held + parts * size_of::<T>(),
            }
        }
        // Miri ends where there is no room; the system says so.
        Op::AskTooMuch { .. } if cfg!(miri) => held,
        Op::AskTooMuch { block } => {
            let Some(block) = blocks.get_mut(block % among) else {
                return held;
            };
            let parts = TOO_MUCH / size_of::<T>();
            assert!(block.try_reserve_exact(parts - block.len()).is_err());
            assert!(block.iter().all(|part| *part == mark));
            held + TOO_MUCH
        }
        Op::Give { block } => {
            if !blocks.is_empty() {
                drop(blocks.swap_remove(block % among));
            }
            held
        }
    }
}

fn as_a_model_says<T: Copy + PartialEq>(ops: &[Op], zero: T, mark: T) {
    let mut blocks = Vec::with_capacity(ops.len());
    let mut most = 0;
    let before = HELD.get();
    let counted = most_held(|| {
        for op in ops {
            most = most.max(done(op, &mut blocks, zero, mark));
            let held = usize::try_from(HELD.get() - before);
            assert_eq!(held, Ok(bytes_of(&blocks)), "after {op:?}");
        }
        blocks.clear();
    });
    assert_eq!((HELD.get(), counted), (before, most));
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_counted_is_what_a_model_says(ops in vec(op(), 0..40)) {
        as_a_model_says(&ops, 0_u8, 7);
        as_a_model_says(&ops, Wide(0), Wide(7));
    }
}
