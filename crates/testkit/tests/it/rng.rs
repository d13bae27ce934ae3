use testkit::Rng;

#[test]
fn the_numbers_of_a_seed_are_those_of_splitmix64() {
    // The generator's published first outputs for seed 1234567.
    let mut rng = Rng::new(1_234_567);
    let numbers = [rng.next_u64(), rng.next_u64()];
    assert_eq!(
        numbers,
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
    );
}

#[test]
fn below_returns_every_number_below_the_limit_and_no_other() {
    let mut rng = Rng::from_env();
    let mut seen = [0; 5];
    (0..500).for_each(|_| seen[rng.below(5)] += 1);
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn a_split_generator_is_independent() {
    let mut rng = Rng::new(7);
    let mut other = rng.split();
    assert_ne!(rng.next_u64(), other.next_u64());
}
