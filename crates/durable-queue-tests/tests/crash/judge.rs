//! Checks the diaries of all processes against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use crate::worker::{LEASE, UNASKED};

/// Summary of a run without faults.
pub(crate) struct Verdict {
    pushed: usize,
    started: usize,
    unasked: usize,
    again: usize,
    acked: usize,
    stale: usize,
    unknown: usize,
    /// Sorted times in microseconds from the expiry of a dead holder's lease to the next start of its job.
    delays: Vec<i64>,
}

impl Verdict {
    /// The store is empty, and each pushed job has ended.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut pushed = BTreeSet::new();
        // Time of each start, and whether its process does not confirm.
        let mut attempts: BTreeMap<u64, BTreeMap<u32, (i64, bool)>> = BTreeMap::new();
        let mut acked = BTreeMap::new();
        let (mut started, mut unasked, mut stale, mut unknown) = (0, 0, 0, 0);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|it| it != "diary") {
                continue;
            }
            for line in fs::read_to_string(path).unwrap().lines() {
                let is_unasked = line.ends_with(UNASKED);
                let line = line.trim_end_matches(UNASKED);
                let words: Vec<&str> = line.split(' ').collect();
                let id: u64 = words[1].parse().unwrap();
                let attempt = || words[2].parse::<u32>().unwrap();
                match words[0] {
                    "pushed" => assert!(pushed.insert(id), "{line}: an id was given twice"),
                    "started" => {
                        started += 1;
                        assert_eq!(words.len(), 4, "{line}");
                        let time: i64 = words[3].parse().unwrap();
                        let attempts = attempts.entry(id).or_default();
                        let before = attempts.get(&attempt()).map(|&(_, unasked)| unasked);
                        // An unconfirmed start is not counted by the store if the process dies at once.
                        let may_be_both = before.is_none_or(|it| it || is_unasked);
                        assert!(may_be_both, "{line}: two holders had one attempt");
                        attempts.insert(attempt(), (time, is_unasked || before == Some(true)));
                        unasked += usize::from(is_unasked);
                    }
                    "acked" => {
                        let before = acked.insert(id, attempt());
                        assert_eq!(before, None, "{line}: acknowledged twice");
                    }
                    "stale" => stale += 1,
                    "unknown" => unknown += 1,
                    _ => panic!("no diary has `{line}`"),
                }
            }
        }
        for id in &pushed {
            assert!(attempts.contains_key(id), "job {id} was pushed, and lost");
        }
        // A later claim ends the lease: an acknowledgement after it is a stale holder's.
        for (id, attempt) in &acked {
            let last = attempts[id].last_key_value();
            assert_eq!(
                last.map(|(last, _)| last),
                Some(attempt),
                "job {id} was settled by a stale holder"
            );
        }
        let mut delays: Vec<i64> = attempts.values().flat_map(delays).collect();
        delays.sort_unstable();
        Self {
            pushed: pushed.len(),
            started,
            unasked,
            again: started - attempts.len(),
            acked: acked.len(),
            stale,
            unknown,
            delays,
        }
    }
}

/// Returns the delays between a job's starts. A lease begins with a confirmed start, and is not renewed.
fn delays(starts: &BTreeMap<u32, (i64, bool)>) -> impl Iterator<Item = i64> {
    let lease = i64::try_from(LEASE.as_micros()).unwrap();
    let pairs = starts.iter().zip(starts.iter().skip(1));
    pairs
        .filter(|((before, (_, unasked)), (after, _))| *before + 1 == **after && !unasked)
        .map(move |((_, (before, _)), (_, (after, _)))| after - before - lease)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pushed,
            started,
            unasked,
            again,
            acked,
            stale,
            unknown,
            delays,
        } = self;
        let part = |hundredths: usize| {
            let at = (delays.len() * hundredths / 100).min(delays.len().saturating_sub(1));
            delays.get(at).map(|delay| delay / 1000)
        };
        let [half, most] = [50, 99].map(part).map(Option::unwrap_or_default);
        write!(
            f,
            "{pushed} jobs pushed, {started} starts, {unasked} of them by processes that do not confirm and {again} again, {acked} acknowledged, \
            {stale} stale holders refused, {unknown} answers unknown; none lost, none early, none \
            settled by a stale holder; {} came again after the lease of a holder that asked, p50 {half} ms and p99 {most} ms after its end",
            delays.len()
        )
    }
}
