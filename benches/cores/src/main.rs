//! `cores`: what busy pools do on more cores than this machine has.
//!
//! `cores measure` measures what the simulation needs on two cores of this machine; `cores predict` prints the tables of
//! `docs/decisions/many-cores.md`, from those figures and published ones.

mod measure;
mod simulate;

use std::env;

use simulate::{Choice, Machine, Rounds, Sections, Setup, efficiency, efficiency_of_futures};

/// Measured: see `docs/decisions/many-cores.md`.
const SECTIONS: Sections = Sections {
    push: 16.0,
    pop: 17.0,
};
/// Measured, too.
const ROUNDS: Rounds = Rounds {
    make: 90.0,
    push: 30.0,
    round: 50.0,
    each: 8.5,
    run: 92.0,
};

/// Cost of a cache line that comes from another core: medians of <https://github.com/nviennot/core-to-core-latency>.
const MACHINES: [Machine; 3] = [
    Machine {
        name: "one mesh (Graviton3 46 ns, Ice Lake 51 ns)",
        transfer: 50.0,
    },
    Machine {
        name: "several dies (Milan 107 ns, Milan-X 115 ns)",
        transfer: 110.0,
    },
    Machine {
        name: "two sockets (Ice Lake 108 ns, Cascade Lake 134 ns, Milan 197 ns)",
        transfer: 135.0,
    },
];

const CORES: [usize; 6] = [4, 8, 16, 32, 64, 128];
const KINDS: [(usize, Choice, &str); 5] = [
    (1, Choice::ByThread, "one pool"),
    (4, Choice::RoundRobin, "4 in turn"),
    (4, Choice::ByThread, "4 by thread"),
    (16, Choice::RoundRobin, "16 in turn"),
    (16, Choice::ByThread, "16 by thread"),
];
/// Workers are kept busy if they spend this share of their time in tasks.
const BUSY: f64 = 0.9;

/// Prints, for each number of cores, the length from which on tasks keep the workers busy.
fn predict() {
    for machine in &MACHINES {
        println!("\n{}: {} ns a line\n", machine.name, machine.transfer);
        let kinds = KINDS.map(|kind| kind.2).join(" | ");
        println!("| cores | {kinds} | futures |");
        println!("|---|{}", "---|".repeat(KINDS.len() + 1));
        for cores in CORES {
            let cells = KINDS.map(|(pools, choice, _)| {
                let setup = setup(cores, pools, choice);
                if pools > 1 && setup.producers < pools {
                    return String::new();
                }
                let busy = |setup: &Setup| efficiency(&SECTIONS, machine.transfer, setup);
                format!("{:.1}", shortest(setup, busy) / 1_000.0)
            });
            let setup = setup(cores, 1, Choice::ByThread);
            let busy = |setup: &Setup| efficiency_of_futures(&ROUNDS, machine.transfer, setup);
            let futures = shortest(setup, busy) / 1_000.0;
            println!("| {cores} | {} | {futures:.1} |", cells.join(" | "));
        }
    }
}

/// A quarter of the cores submits.
fn setup(cores: usize, pools: usize, choice: Choice) -> Setup {
    let producers = cores / 4;
    Setup {
        workers: cores - producers,
        producers,
        pools,
        choice,
        task: 0.0,
    }
}

/// The length of the shortest tasks that keep the workers busy, ns, to a tenth.
fn shortest(setup: Setup, efficiency: impl Fn(&Setup) -> f64) -> f64 {
    let mut task = 100.0;
    while efficiency(&Setup { task, ..setup }) < BUSY {
        task *= 1.1;
    }
    task
}

fn main() {
    match env::args().nth(1).as_deref() {
        Some("measure") => measure::print(&SECTIONS, &ROUNDS),
        Some("predict") | None => predict(),
        Some(other) => panic!("no such command: {other}"),
    }
}
