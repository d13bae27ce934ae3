//! Runs the rounds of a case, peer by peer in changing order, and prints the results.

use std::env;

/// The options of a run.
pub struct Rounds {
    pub count: usize,
    pub is_quick: bool,
    pub is_test: bool,
    only: Option<String>,
    peers: Vec<String>,
    sizes: Vec<usize>,
}

/// The name of a peer, and a function that runs one round and returns its figures, one per case.
pub type Peer<'a> = (&'static str, Box<dyn FnMut() -> Vec<f64> + 'a>);

impl Rounds {
    /// Ignores flags of other benchmarks.
    pub fn from_args() -> Self {
        let args: Vec<String> = env::args().skip(1).collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let (is_quick, is_test) = (has("--quick"), has("--test"));
        let is_word = |arg: &&String| !arg.starts_with('-') && arg.parse::<f64>().is_err();
        let after = |flag: &str| {
            let pairs = args.iter().zip(args.iter().skip(1));
            let words = pairs.filter(|(before, _)| *before == flag);
            words.map(|(_, word)| word.clone()).collect::<Vec<_>>()
        };
        let peers = after("--peer");
        let mut sizes: Vec<usize> = after("--size")
            .iter()
            .map(|size| size.parse().expect("a size is a number"))
            .collect();
        if sizes.is_empty() {
            sizes = match (is_test, is_quick) {
                (true, _) => vec![100],
                (_, true) => vec![1_000, 100_000],
                _ => vec![1_000, 100_000, 1_000_000],
            };
        }
        Self {
            count: match (is_test, is_quick) {
                (true, _) => 1,
                (_, true) => 3,
                _ => 7,
            },
            is_quick,
            is_test,
            only: args
                .iter()
                .find(|arg| is_word(arg) && !peers.contains(arg))
                .cloned(),
            peers,
            sizes,
        }
    }

    /// The sizes to measure.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Whether a case of this name, or one whose name begins so, is asked for.
    pub fn wants(&self, case: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| case.contains(only.as_str()))
    }

    /// Whether this peer was selected.
    pub fn has(&self, name: &str) -> bool {
        self.peers.is_empty() || name == "ours" || self.peers.iter().any(|peer| peer == name)
    }

    /// Runs these cases, whose figures result from the same work, and prints a line per peer and
    /// case. The first peer is ours. The other medians are printed as multiples of ours.
    pub fn run(&self, cases: &[(String, &str)], mut peers: Vec<Peer<'_>>) {
        let name = |case: &str, peer: &str| format!("{}/{case}/{peer}", env!("CARGO_CRATE_NAME"));
        if !cases.iter().any(|(case, _)| self.wants(&name(case, ""))) {
            return;
        }
        peers.retain(|(name, _)| self.has(name));
        let mut rounds = vec![Vec::new(); peers.len()];
        for round in 0..self.count {
            for turn in 0..peers.len() {
                let index = (round + turn) % peers.len();
                rounds[index].push((peers[index].1)());
            }
        }
        for (at, (case, unit)) in cases.iter().enumerate() {
            let mut ours = None;
            for ((peer, _), rounds) in peers.iter().zip(&rounds) {
                let mut figures: Vec<f64> = rounds.iter().map(|figures| figures[at]).collect();
                figures.sort_by(f64::total_cmp);
                let (least, most) = (figures[0], figures[figures.len() - 1]);
                let median = figures[figures.len() / 2];
                let ratio = median / *ours.get_or_insert(median);
                let name = name(case, peer);
                println!(
                    "{name:<56} time:   [{least:.1} {unit} {median:.1} {unit} {most:.1} {unit}] {ratio:.2}"
                );
            }
        }
    }
}
