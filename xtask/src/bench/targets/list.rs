//! The targets themselves, and nothing else: which cases, beside whom, by which figure, how much.
//!
//! Factors are of one run on one machine. The only times that stand here are those that a target
//! names, and those of a program that no run of ours can start.

use super::{Ask, Asked, Beside, HEADLINE, Target};

const EMPTY: &[&str] = &["empty/unlimited"];
const BOUNDED: &[&str] = &["empty/1024"];
const WINDOW: &[&str] = &["handoff/window/*/1p", "handoff/window/*/4p"];
const PAUSED: &[&str] = &["handoff/paused"];
const CPU: &[&str] = &["cpu/1us", "cpu/10us"];
const CONTENDED: &[&str] = &["locks/*/4", "locks/*/8", "locks/*/16"];

/// Goroutine pools by ants, the same tasks, on a machine of two cores: ns per task.
const ANTS: &[(&str, f64)] = &[
    ("handoff/window/2w/1p", 381.0),
    ("handoff/window/2w/4p", 504.0),
    ("handoff/window/4w/1p", 381.0),
    ("handoff/window/4w/4p", 1_277.0),
    ("handoff/window/1000w/1p", 369.0),
    ("handoff/window/1000w/4p", 248.0),
];

/// All cases that have a peer, beside processes that spin. Nothing runs in an idle pool or goes to
/// the heap more often because of them.
const SPINNING: &[&str] = &[
    "empty+spin",
    "handoff+spin",
    "cpu+spin",
    "captures+spin",
    "typed+spin",
    "nested+spin",
    "round-trip+spin",
    "start+spin",
    "sleepers+spin",
    "overload+spin",
    "burst+spin",
    "elastic+spin",
    "scaling+spin",
    "checksum+spin",
];

/// In the order in which they are shown.
#[rustfmt::skip]
pub(crate) const ALL: &[Target] = &[
    Target {
        name: "empty tasks, queue without bound",
        asks: &[
            Ask::of(EMPTY, "wall", Beside::Pool("rayon"), Asked::AtLeast(6.0)),
            Ask::of(EMPTY, "wall", Beside::Pool("tokio spawn"), Asked::AtLeast(15.0)),
            Ask::of(EMPTY, "wall", Beside::Pool("tokio spawn_blocking"), Asked::AtLeast(15.0)),
            Ask::of(EMPTY, "wall", Beside::Best, Asked::AtLeast(1.5)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "empty tasks, queue of 1024",
        asks: &[
            Ask::of(BOUNDED, "wall", Beside::Pool("rayon"), Asked::AtLeast(4.0)),
            Ask::of(BOUNDED, "wall", Beside::Pool("tokio spawn"), Asked::AtLeast(10.0)),
            Ask::of(BOUNDED, "wall", Beside::Pool("tokio spawn_blocking"), Asked::AtLeast(10.0)),
            Ask::of(BOUNDED, "wall", Beside::Pool("crossbeam"), Asked::AtLeast(1.5)),
            Ask::of(&["empty/1024/*/16p"], "wall", Beside::Ours("16p", "4p"), Asked::AtMost(2.0)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "hand-off, back to back",
        asks: &[
            Ask::of(WINDOW, "wall", Beside::Pool("crossbeam"), Asked::AtLeast(2.0)),
            Ask::of(WINDOW, "wall", Beside::Pool("crossbeam"), Asked::AtLeast(4.0)).mean().cores(1..=3),
            Ask::of(WINDOW, "wall", Beside::Pool("crossbeam"), Asked::AtLeast(20.0)).mean().cores(4..=usize::MAX),
            Ask::of(WINDOW, "wall", Beside::Tabled("ants (Go)", ANTS), Asked::AtLeast(1.0)).cores(2..=2),
            Ask::of(WINDOW, "wall", Beside::Pool("bare mailbox"), Asked::AtMost(1.5)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "hand-off, after a pause",
        asks: &[
            Ask::of(PAUSED, "p50", Beside::Pool("crossbeam"), Asked::Report),
            Ask::of(PAUSED, "p50", Beside::Pool("bare mailbox"), Asked::Report),
        ],
        elsewhere: &[],
    },
    Target {
        name: "CPU tasks over the ideal",
        asks: &[
            Ask::of(&["cpu/1us"], "wall", Beside::Pool("bare loop"), Asked::AtMost(1.2)),
            Ask::of(&["cpu/10us"], "wall", Beside::Pool("bare loop"), Asked::AtMost(1.05)),
            Ask::of(CPU, "over_ideal", Beside::Best, Asked::AtLeast(1.0)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "round trip",
        asks: &[
            Ask::of(&["round-trip/window"], "p50", Beside::Nothing, Asked::AtMost(1.0)),
            Ask::of(&["round-trip/window"], "p50", Beside::Best, Asked::AtLeast(1.0)),
            Ask::of(&["round-trip/paused"], "p50", Beside::Best, Asked::AtLeast(1.0)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "submit to start, idle pool",
        asks: &[
            Ask::of(&["start/idle/1ms"], "p50", Beside::Pool("bare futex wake"), Asked::AtMost(1.2)),
            Ask::of(&["start/idle/1ms"], "p99", Beside::Best, Asked::AtLeast(1.0)),
            Ask::of(&["start/idle/50us"], "p50", Beside::Pool("rayon"), Asked::AtLeast(1.0)),
            Ask::of(&["start/idle/50us"], "cpu", Beside::Pool("rayon"), Asked::AtLeast(1.0)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "nested submits",
        asks: &[
            Ask::of(&["nested/tree"], "wall", Beside::Pool("rayon scope"), Asked::AtLeast(1.0)),
            Ask::of(&["nested/chain"], "wall", Beside::Pool("rayon"), Asked::AtLeast(1.0)),
            Ask::of(&["nested/chain"], "wall", Beside::Pool("crossbeam"), Asked::AtLeast(1.0)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "heap and kernel per task",
        asks: &[
            Ask::of(&["allocations/0", "allocations/8", "allocations/48"], "allocations", Beside::Nothing, Asked::AtMost(0.0)),
            Ask::of(&["typed"], "allocations", Beside::Nothing, Asked::AtMost(0.0)),
        ],
        elsewhere: &["no system call per task of a busy pool: `cargo xtask syscalls`"],
    },
    Target {
        name: "idle pool",
        asks: &[
            Ask::of(&["idle/quiet"], "wake-ups", Beside::Nothing, Asked::AtMost(0.0)),
            Ask::of(&["idle/quiet"], "cpu", Beside::Nothing, Asked::AtMost(0.0)),
            Ask::of(&["idle/memory"], "resident", Beside::Best, Asked::AtLeast(1.0)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "task with many live workers",
        asks: &[
            Ask::of(&["scaling/1000w"], "wall", Beside::Ours("1000w", "4w"), Asked::AtMost(1.5)),
            Ask::of(&["scaling/10000w"], "wall", Beside::Ours("10000w", "4w"), Asked::AtMost(1.5)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "everything, oversubscribed",
        asks: &[
            Ask::of(SPINNING, HEADLINE, Beside::Best, Asked::AtMost(1.1)),
            Ask::of(&["locks+spin"], HEADLINE, Beside::BestOf(&["parking_lot", "std"]), Asked::AtMost(1.1)),
        ],
        elsewhere: &[],
    },
    Target {
        name: "spin lock",
        asks: &[
            Ask::of(&["locks/*/1"], "wall", Beside::Best, Asked::AtLeast(1.0)),
            Ask::of(CONTENDED, "wall", Beside::Pool("parking_lot"), Asked::AtLeast(1.0)),
            Ask::of(CONTENDED, "cpu", Beside::Pool("parking_lot"), Asked::AtLeast(1.0)),
            Ask::of(CONTENDED, "share", Beside::Nothing, Asked::AtMost(4.0)),
        ],
        elsewhere: &["what waits how: `docs/decisions/spinlock-waiting.md`"],
    },
    Target {
        name: "checksum of 20,000 files",
        asks: &[
            Ask::of(&["checksum/20000"], "wall", Beside::Pool("rayon"), Asked::AtLeast(1.0)),
            Ask::of(&["checksum/20000"], "wall", Beside::Pool("rayon par_bridge"), Asked::AtLeast(1.0)),
            Ask::of(&["checksum/20000"], "memory", Beside::Ours("20000", "2000"), Asked::AtMost(1.1)),
        ],
        elsewhere: &[],
    },
];
