//! A store for unit tests of the engine: it holds nothing, and every settle is stale.
//!
//! The simulated store is in a crate of its own, which uses this one as others see it.

use std::time::Duration;

use crate::store::job::{Cancelled, JobId, NewJob, Put, Reset, Token, Which};
use crate::store::limit::Limit;
use crate::store::notify::Notifier;
use crate::store::time::{StoreTime, When};
use crate::store::{
    Claim, Claimed, DeadJob, Fate, Lease, ListedJob, Result, Settle, Store, StoreStats, Turn,
    Verdict, Watch,
};

pub(crate) struct Stub;

struct Silent;

impl Watch for Silent {
    fn every(&self) -> Option<Duration> {
        None
    }

    fn look(&mut self) -> Result<bool> {
        Ok(false)
    }
}

impl Store for Stub {
    fn enqueue(&self, _: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        Ok(jobs.iter().map(|_| Put::New(JobId::from_u64(1))).collect())
    }

    fn turn(&self, _: &str, settle: &[Settle<'_>], claim: Option<Claim>) -> Result<Turn> {
        Ok(Turn {
            now: StoreTime::from_micros(0),
            paused: false,
            verdicts: settle.iter().map(|_| Verdict::Stale).collect(),
            claimed: claim.map(|_| Claimed {
                leases: Vec::new(),
                first: StoreTime::NEVER,
                first_free: StoreTime::NEVER,
            }),
        })
    }

    fn cancel(&self, _: &str, _: Which<'_>) -> Result<Cancelled> {
        Ok(Cancelled::Never)
    }

    fn cancel_requests(&self, _: &str) -> Result<Vec<(JobId, Token)>> {
        Ok(Vec::new())
    }

    fn reset(&self, _: &str, _: Which<'_>, _: When) -> Result<Reset> {
        Ok(Reset::Never)
    }

    fn held_by(&self, _: &str, _: Token, _: Duration) -> Result<Vec<Lease>> {
        Ok(Vec::new())
    }

    fn watch(&self, _: &str, _: Notifier) -> Result<Box<dyn Watch>> {
        Ok(Box::new(Silent))
    }

    fn pause(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }

    fn limit(&self, _: &str, _: &Limit, _: bool) -> Result<()> {
        Ok(())
    }

    fn limits(&self, _: &str) -> Result<Vec<Limit>> {
        Ok(Vec::new())
    }

    fn stats(&self, _: &str) -> Result<StoreStats> {
        Ok(StoreStats::default())
    }

    fn list(&self, _: &str, _: Option<(StoreTime, JobId)>, _: u32) -> Result<Vec<ListedJob>> {
        Ok(Vec::new())
    }

    fn dead(&self, _: &str, _: Option<JobId>, _: u32) -> Result<Vec<DeadJob>> {
        Ok(Vec::new())
    }

    fn redrive(&self, _: &str, _: &[JobId]) -> Result<usize> {
        Ok(0)
    }

    fn delete_dead(&self, _: &str, _: &[JobId]) -> Result<usize> {
        Ok(0)
    }

    fn fate(&self, _: &str, _: JobId) -> Result<Fate> {
        Ok(Fate::Gone)
    }

    fn delete_done(&self, _: &str, _: u32) -> Result<usize> {
        Ok(0)
    }
}
