//! Tests of the jobs of a cache.

use alloc::format;

use super::*;

#[test]
fn paths_count_until_no_job_of_them_is_left() {
    let (a, bc) = (Arc::from("/a"), Arc::from("/bc"));
    let mut jobs = Jobs::default();
    jobs.want(&a, Part::Data, false);
    jobs.want(&a, Part::Children, false);
    jobs.want(&bc, Part::Data, false);
    assert_eq!(jobs.begin_next(), Some((a.clone(), Part::Data)));
    assert_eq!((jobs.len(), jobs.bytes()), (2, 5));
    jobs.finish(&a, Part::Data);
    assert_eq!((jobs.len(), jobs.bytes()), (2, 5));
    jobs.deleted("/a");
    assert_eq!((jobs.len(), jobs.bytes()), (1, 3));
    jobs.finish(&bc, Part::Data);
    assert_eq!((jobs.len(), jobs.bytes()), (0, 0));
}

#[test]
fn the_walk_waits_for_a_job_that_it_finds_in_the_queue() {
    let path = Arc::from("/a");
    let mut jobs = Jobs::default();
    jobs.want(&path, Part::Data, false);
    assert!(jobs.is_walk_over());
    for _ in 0..2 {
        jobs.want(&path, Part::Data, true);
        assert!(!jobs.is_walk_over());
    }
    jobs.finish(&path, Part::Data);
    assert!(jobs.is_walk_over());
    jobs.want(&path, Part::Data, true);
    jobs.deleted("/a");
    assert!(jobs.is_walk_over());
}

#[test]
fn the_queue_forgets_deleted_jobs_once_they_are_most_of_it() {
    let mut jobs = Jobs::default();
    let mut come = |count, goes: bool| {
        for path in (0..count).map(|n| Arc::from(format!("/{goes}/{n}"))) {
            jobs.want(&path, Part::Data, false);
            if goes {
                jobs.deleted(&path);
            }
        }
        jobs.queue.len()
    };
    assert_eq!(come(20, false), 20);
    assert_eq!(come(20, true), 40);
    assert!(come(900, true) < 140);
    assert_eq!(core::iter::from_fn(|| jobs.begin_next()).count(), 20);
}
