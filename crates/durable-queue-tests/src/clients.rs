//! Pushes in the caller's own transaction: the same tests for each database client.

use std::borrow::Cow;
use std::time::Duration;

use durable_queue::store::{Claim, Lease, ListedJob};
use durable_queue::{
    DecodeError, DurableQueue, EncodeError, ErrorKind, Limit, Merge, NewJob, Payload, Push, Put,
    SqlStore, Store, StoreError, StoreTime, When,
};
use testkit::Rng;

use crate::alike::{JOB, claim_of};

/// Any bytes, except that one value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(pub Vec<u8>);

const UNENCODABLE: &[u8] = b"unencodable";

impl Payload for Value {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        if self.0 == UNENCODABLE {
            return Err(EncodeError::new("no"));
        }
        Ok(Cow::Borrowed(&self.0))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        Ok(Self(bytes))
    }
}

fn value(bytes: &[u8]) -> Value {
    Value(bytes.to_vec())
}

/// A call in a transaction.
#[derive(Clone)]
pub enum Call {
    One(Value, When),
    Keyed(Vec<u8>, Value, When, Merge),
    Many(Vec<Push<Value>>),
    /// By the store itself.
    Raw(Vec<NewJob<'static>>),
}

/// Its outcome. An error contains the values.
pub type Outcome = Result<Vec<Put>, (StoreError, Vec<Value>)>;

pub type Queue<S> = DurableQueue<Value, S>;

/// Makes a [`Call`] by a transaction of a client, with `, await` by that of an async one.
#[macro_export]
macro_rules! call_in {
    ($queue:expr, $transaction:expr, $call:expr $(, $await:tt)?) => {
        match $call {
            $crate::clients::Call::One(value, when) => {
                let put = $queue.push_in($transaction, value, when)$(.$await)?;
                put.map(|id| vec![durable_queue::Put::New(id)])
                    .map_err(|failed| (failed.error, vec![failed.value]))
            }
            $crate::clients::Call::Keyed(key, value, when, merge) => {
                let put = $queue.push_keyed_in($transaction, key, value, when, merge)$(.$await)?;
                put.map(|put| vec![put])
                    .map_err(|failed| (failed.error, vec![failed.value]))
            }
            $crate::clients::Call::Many(jobs) => {
                let puts = $queue.push_many_in($transaction, jobs)$(.$await)?;
                puts.map_err(|failed| {
                    let values = failed.value.into_iter().map(durable_queue::Push::into_value);
                    (failed.error, values.collect())
                })
            }
            $crate::clients::Call::Raw(jobs) => {
                use durable_queue::PushIn as _;
                let (store, name) = ($queue.store(), $queue.name());
                let puts = store.enqueue_in($transaction, name, &jobs)$(.$await)?;
                puts.map_err(|error| (error, Vec::new()))
            }
        }
    };
}

/// Declares the tests that need no preparation of the store. `$for_each_client` runs a test for each client.
#[macro_export]
macro_rules! client_tests {
    ($for_each_client:ident) => {
        $crate::client_tests! {
            $for_each_client:
            jobs_exist_if_and_only_if_the_transaction_commits
            payloads_and_keys_are_stored_byte_for_byte
            kinds_and_options_are_stored
            pushes_have_the_same_effect_as_those_of_the_store
            a_delay_counts_from_the_push
            a_bound_holds_for_jobs_without_a_key
            a_payload_that_cannot_be_encoded_is_returned
            pushes_of_an_urgent_handle_are_urgent
            a_push_that_takes_a_claim_ahead_leaves_the_seat_of_its_group
        }
    };
    ($for_each_client:ident: $($test:ident)*) => {$(
        #[test]
        fn $test() {
            $for_each_client(|_, store, client| $crate::clients::$test(store, client));
        }
    )*};
}

/// A connection of an application.
pub trait Client<S: SqlStore> {
    /// Makes the calls in one transaction, which ends by a commit or a rollback.
    fn transact(&mut self, queue: &Queue<S>, calls: Vec<Call>, commit: bool) -> Vec<Outcome>;
}

fn stored<S: Store>(queue: &Queue<S>) -> Vec<ListedJob> {
    queue.list(None, 1_000).unwrap()
}

#[track_caller]
fn transact_one<S: SqlStore>(
    client: &mut dyn Client<S>,
    queue: &Queue<S>,
    call: Call,
    commit: bool,
) -> Outcome {
    let mut outcomes = client.transact(queue, vec![call], commit);
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

pub fn jobs_exist_if_and_only_if_the_transaction_commits<S: SqlStore>(
    store: S,
    client: &mut dyn Client<S>,
) {
    let queue = DurableQueue::new("queue", store);
    let many = (0..5).map(|number| Push::new(value(&[number]), When::NOW));
    let calls = [
        (1, Call::One(value(b"one"), When::NOW)),
        (
            1,
            Call::Keyed(b"key".to_vec(), value(b"keyed"), When::NOW, Merge::Keep),
        ),
        (5, Call::Many(many.collect())),
        (0, Call::Many(Vec::new())),
    ];
    let mut expected = 0;
    for (count, call) in calls {
        for commit in [false, true] {
            let puts = transact_one(client, &queue, call.clone(), commit).unwrap();
            assert_eq!(puts.len(), count);
            assert!(puts.iter().all(|put| matches!(put, Put::New(_))));
            expected += if commit { count } else { 0 };
            let stored = stored(&queue);
            assert_eq!(stored.len(), expected);
            let ids: Vec<_> = stored.iter().map(|job| job.id).collect();
            assert!(puts.iter().all(|put| ids.contains(&put.id()) == commit));
        }
    }
}

pub fn payloads_and_keys_are_stored_byte_for_byte<S: SqlStore>(
    store: S,
    client: &mut dyn Client<S>,
) {
    let queue = DurableQueue::new("qu'eue ü", store);
    let all: Vec<u8> = (0..=255).collect();
    let large = vec![0xff; 1 << 20];
    let payloads = [
        &b""[..],
        b"\0",
        "text ü".as_bytes(),
        &all,
        &large,
        b"it's \\x00",
    ];
    let keyed = payloads.iter().enumerate().map(|(number, payload)| {
        let key = [&[u8::try_from(number).unwrap()][..], b"\0 \xff", &all].concat();
        (key, value(payload))
    });
    let keyed: Vec<_> = keyed.collect();
    let mut calls: Vec<Call> = payloads
        .iter()
        .map(|payload| Call::One(value(payload), When::NOW))
        .collect();
    for (key, value) in keyed.clone() {
        calls.push(Call::Keyed(key, value, When::NOW, Merge::Keep));
    }
    let again = keyed.iter().map(|(key, value)| {
        let key = [b"many", &key[..]].concat();
        Push::new(value.clone(), When::NOW).keyed(key, Merge::Keep)
    });
    calls.push(Call::Many(again.collect()));
    let plain = payloads
        .iter()
        .map(|payload| Push::new(value(payload), When::NOW));
    calls.push(Call::Many(plain.collect()));
    for outcome in client.transact(&queue, calls, true) {
        outcome.unwrap();
    }
    let turn = queue.store().turn(queue.name(), &[], Some(claim_of(100)));
    let mut found: Vec<_> = turn.unwrap().claimed.unwrap().leases;
    found.sort_by_key(|lease| lease.id);
    let found = found
        .into_iter()
        .map(|lease| (lease.key, Value(lease.payload)));
    let plain = || payloads.iter().map(|payload| (None, value(payload)));
    let of_keys = keyed
        .iter()
        .map(|(key, value)| (Some(key.clone()), value.clone()));
    let of_many = of_keys
        .clone()
        .map(|(key, value)| (key.map(|key| [b"many", &key[..]].concat()), value));
    let expected: Vec<_> = plain()
        .chain(of_keys)
        .chain(of_many)
        .chain(plain())
        .collect();
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Of one job, and of each of a batch, with and without keys. A merge replaces them.
pub fn kinds_and_options_are_stored<S: SqlStore>(store: S, client: &mut dyn Client<S>) {
    let queue = DurableQueue::new("queue", store);
    let of_kind = |kind, options, key: Option<&'static [u8]>| NewJob {
        kind,
        options,
        key,
        merge: Merge::Latest,
        ..JOB
    };
    let text = Some("it's \u{1F41C}");
    let calls = [
        vec![of_kind(text, Some(""), None)],
        vec![of_kind(text, None, Some(b"key"))],
        vec![of_kind(None, text, None), JOB, of_kind(text, None, None)],
        vec![
            of_kind(None, text, Some(b"key")),
            of_kind(Some("mail"), text, None),
            of_kind(None, None, Some(b"another")),
        ],
    ];
    for outcome in client.transact(&queue, calls.map(Call::Raw).to_vec(), true) {
        outcome.unwrap();
    }
    let turn = queue.store().turn(queue.name(), &[], Some(claim_of(100)));
    let mut leases = turn.unwrap().claimed.unwrap().leases;
    leases.sort_by_key(|lease| lease.id);
    let texts = leases
        .iter()
        .map(|lease| (lease.kind.as_deref(), lease.options.as_deref()));
    let expected = [
        (text, Some("")),
        (None, text),
        (None, text),
        (None, None),
        (text, None),
        (Some("mail"), text),
        (None, None),
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}

/// Every policy, in random order, alone and in batches, compared with pushes by the store itself.
pub fn pushes_have_the_same_effect_as_those_of_the_store<S: SqlStore + Clone>(
    store: S,
    client: &mut dyn Client<S>,
) {
    let within: Queue<S> = DurableQueue::new("within", store.clone());
    let plain: Queue<S> = DurableQueue::new("plain", store);
    let mut rng = Rng::from_env();
    let at = |rng: &mut Rng| {
        When::from(StoreTime::from_micros(
            1 + i64::try_from(rng.below(20)).unwrap(),
        ))
    };
    let push = |rng: &mut Rng, number: u8| {
        let merge = match rng.below(6) {
            0 => Merge::Keep,
            1 => Merge::Earliest,
            2 => Merge::Latest,
            3 => Merge::Debounce,
            _ => Merge::DebounceUntil(at(rng)),
        };
        let push = Push::new(value(&[number]), at(rng));
        let push = if rng.below(4) == 0 {
            push
        } else {
            push.keyed([u8::try_from(rng.below(3)).unwrap()], merge)
        };
        if rng.below(4) == 0 {
            push.urgent()
        } else {
            push
        }
    };
    for number in 0..40 {
        let count = 1 + rng.below(4);
        let jobs: Vec<_> = (0..count).map(|_| push(&mut rng, number)).collect();
        let expected = plain.push_many(jobs.clone()).unwrap();
        let found = transact_one(client, &within, Call::Many(jobs), true).unwrap();
        let (known, ours) = (stored(&plain), stored(&within));
        // Ids differ, so a job is identified by its place in the order of ids.
        let kind = |puts: &[Put], stored: &[ListedJob]| {
            let mut ids: Vec<_> = stored.iter().map(|job| job.id).collect();
            ids.sort_unstable();
            let place = |put: &Put| ids.binary_search(&put.id()).unwrap();
            let kind = |put: &Put| match put {
                Put::New(_) => 0,
                Put::Merged(_) => 1,
                Put::Kept(_) => 2,
            };
            puts.iter()
                .map(|put| (kind(put), place(put)))
                .collect::<Vec<_>>()
        };
        assert_eq!(kind(&found, &ours), kind(&expected, &known));
        let facts = |stored: Vec<ListedJob>| {
            let facts = stored
                .into_iter()
                .map(|job| (job.due, job.at, job.key, job.urgent));
            facts.collect::<Vec<_>>()
        };
        assert_eq!(facts(ours), facts(known));
    }
    let payloads = |queue: &Queue<S>| {
        let turn = queue.store().turn(queue.name(), &[], Some(claim_of(1_000)));
        let leases = turn.unwrap().claimed.unwrap().leases.into_iter();
        leases.map(|lease| lease.payload).collect::<Vec<_>>()
    };
    assert_eq!(payloads(&within), payloads(&plain));
}

pub fn a_delay_counts_from_the_push<S: SqlStore>(store: S, client: &mut dyn Client<S>) {
    const DELAY: Duration = Duration::from_secs(3_600);
    let queue = DurableQueue::new("queue", store);
    let now = || queue.store().turn("queue", &[], None).unwrap().now;
    let before = now();
    let never = Call::One(value(b"never"), Duration::MAX.into());
    let keyed = Call::Keyed(b"key".to_vec(), value(b"keyed"), DELAY.into(), Merge::Keep);
    let many = vec![
        Push::new(value(b"many"), DELAY),
        Push::new(value(b"many"), DELAY),
    ];
    let one = Call::One(value(b"one"), DELAY.into());
    let calls = vec![one.clone(), one, keyed, Call::Many(many), never];
    for outcome in client.transact(&queue, calls, true) {
        outcome.unwrap();
    }
    let mut stored = stored(&queue);
    assert_eq!(stored.pop().unwrap().due, StoreTime::NEVER);
    assert_eq!(stored.len(), 5);
    let range = before.after(DELAY)..=now().after(DELAY);
    assert!(
        stored.iter().all(|job| range.contains(&job.due)),
        "{range:?}"
    );
}

/// In an existing queue too.
pub fn a_bound_holds_for_jobs_without_a_key<S: SqlStore>(store: S, client: &mut dyn Client<S>) {
    let queue = DurableQueue::new("queue", store);
    let [bound, late] = [5, 9].map(StoreTime::from_micros);
    let bounded = NewJob {
        when: When::At(late),
        merge: Merge::DebounceUntil(When::At(bound)),
        ..JOB
    };
    let calls = vec![Call::Raw(vec![bounded]); 2];
    for outcome in client.transact(&queue, calls, true) {
        outcome.unwrap();
    }
    let stored = stored(&queue);
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|job| (job.due, job.at) == (bound, bound)));
}

/// The payload is encoded before the client is called, so the transaction goes on.
pub fn a_payload_that_cannot_be_encoded_is_returned<S: SqlStore>(
    store: S,
    client: &mut dyn Client<S>,
) {
    let queue = DurableQueue::new("queue", store);
    let bad = value(UNENCODABLE);
    let push = |value: &Value| Push::new(value.clone(), When::NOW);
    let calls = vec![
        Call::One(bad.clone(), When::NOW),
        Call::Keyed(b"key".to_vec(), bad.clone(), When::NOW, Merge::Keep),
        Call::Many(vec![push(&value(b"good")), push(&bad)]),
        Call::One(value(b"next"), When::NOW),
    ];
    let mut outcomes = client.transact(&queue, calls, true);
    assert!(outcomes.pop().unwrap().is_ok());
    let good = value(b"good");
    let expected = [vec![bad.clone()], vec![bad.clone()], vec![good, bad]];
    assert_eq!(outcomes.len(), expected.len());
    for (outcome, expected) in outcomes.into_iter().zip(expected) {
        let (error, values) = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unencodable);
        assert_eq!(values, expected);
    }
    assert_eq!(stored(&queue).len(), 1);
}

/// `client` is connected to a database without the store's tables.
pub fn a_database_without_the_tables_is_reported<S: SqlStore>(
    store: S,
    client: &mut dyn Client<S>,
) {
    let queue = DurableQueue::new("queue", store);
    let calls = [
        Call::One(value(b"one"), When::NOW),
        Call::Keyed(b"key".to_vec(), value(b"one"), When::NOW, Merge::Keep),
        Call::Many(vec![Push::new(value(b"one"), When::NOW); 2]),
    ];
    for call in calls {
        let (error, values) = transact_one(client, &queue, call, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotInstalled, "{error:?}");
        assert!(!error.is_transient());
        assert!(values.iter().all(|returned| *returned == value(b"one")));
        assert!(!values.is_empty());
    }
}

/// The value that the test's table refuses.
pub const REFUSED: &[u8] = b"refused";

/// The table of jobs refuses [`REFUSED`].
pub fn a_batch_is_pushed_completely_or_not_at_all<S: SqlStore>(
    store: S,
    client: &mut dyn Client<S>,
) {
    let queue = DurableQueue::new("queue", store);
    for key in [None, Some("key")] {
        let values = [&b"first"[..], REFUSED, b"last"].map(value);
        let push = |value: &Value| match key {
            None => Push::new(value.clone(), When::NOW),
            Some(key) => Push::new(value.clone(), When::NOW).keyed(key, Merge::Debounce),
        };
        let batch = Call::Many(values.iter().map(push).collect());
        // A commit of a failed transaction rolls it back, on PostgreSQL.
        let (error, returned) = transact_one(client, &queue, batch, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_eq!(returned, values);
        assert_eq!(stored(&queue).len(), 0);
        let (error, returned) =
            transact_one(client, &queue, Call::One(value(REFUSED), When::NOW), true).unwrap_err();
        assert_eq!(
            (error.kind(), returned),
            (ErrorKind::Other, vec![value(REFUSED)])
        );
    }
}

/// A handle that is urgent pushes urgent jobs.
pub fn pushes_of_an_urgent_handle_are_urgent<S: SqlStore>(store: S, client: &mut dyn Client<S>) {
    let queue = DurableQueue::new("queue", store).urgent();
    let one = Call::One(value(b"one"), When::NOW);
    let calls = vec![
        one.clone(),
        one,
        Call::Keyed(b"key".to_vec(), value(b"one"), When::NOW, Merge::Keep),
        Call::Many(vec![Push::new(value(b"many"), When::NOW); 2]),
    ];
    for outcome in client.transact(&queue, calls, true) {
        outcome.unwrap();
    }
    let stored = stored(&queue);
    assert_eq!(stored.len(), 5);
    assert!(stored.iter().all(|job| job.urgent));
}

/// A job that is claimed ahead of its time has the seat of its group, so another one waits.
pub fn a_push_that_takes_a_claim_ahead_leaves_the_seat_of_its_group<S: SqlStore>(
    store: S,
    client: &mut dyn Client<S>,
) {
    const HOUR: Duration = Duration::from_secs(3_600);
    let queue: Queue<S> = DurableQueue::new("queue", store);
    let store = queue.store();
    queue.limit(&Limit::ordered()).unwrap();
    let claimed = |claim| -> Vec<Lease> {
        let turn = store.turn("queue", &[], Some(claim)).unwrap();
        turn.claimed.unwrap().leases
    };
    let group = queue.group("account 7");
    let ahead = group.push_keyed("key", value(b"job"), HOUR, Merge::Latest);
    let ahead = ahead.unwrap().id();
    let claim_ahead = Claim {
        start: 0,
        ahead: 1,
        horizon: HOUR * 3,
        ..claim_of(1)
    };
    assert_eq!(claimed(claim_ahead)[0].id, ahead);
    let waiting = group.push(value(b"job"), When::NOW).unwrap();
    assert!(claimed(claim_of(1)).is_empty(), "the seat is taken");

    let merge = Call::Keyed(b"key".to_vec(), value(b"job"), HOUR.into(), Merge::Latest);
    let puts = transact_one(client, &group, merge, true).unwrap();
    assert_eq!(puts, [Put::Merged(ahead)]);
    assert_eq!(claimed(claim_of(1))[0].id, waiting);
}
