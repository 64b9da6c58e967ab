//! The measurements of criterion in one table.

use std::hint::black_box;
use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};

pub(crate) const SAMPLES: usize = 50;

/// Cases, each measured in several ways. The last way is the baseline.
pub(crate) struct Table<'c> {
    criterion: &'c mut Criterion,
    rows: Vec<(String, Vec<Median>)>,
}

/// The name of a measurement and its median in nanoseconds.
type Median = (&'static str, f64);

impl<'c> Table<'c> {
    pub(crate) fn new(criterion: &'c mut Criterion) -> Self {
        Self { criterion, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, case: &str, measure: impl FnOnce(&mut Row<'_>)) {
        let mut row = Row { group: self.criterion.benchmark_group(case), medians: Vec::new() };
        measure(&mut row);
        let Row { group, medians } = row;
        group.finish();
        self.rows.push((case.to_owned(), medians));
    }

    pub(crate) fn print(&self) {
        for (case, medians) in &self.rows {
            let Some((_, yardstick)) = medians.last() else { continue };
            println!("{case}");
            for (name, median) in medians {
                println!("    {name:10} {median:10.1} ns  {:5.2}x", median / yardstick);
            }
        }
    }
}

pub(crate) struct Row<'c> {
    group: BenchmarkGroup<'c, WallTime>,
    medians: Vec<Median>,
}

impl Row<'_> {
    /// Measures code that must not allocate.
    pub(crate) fn measure<T>(&mut self, name: &'static str, mut routine: impl FnMut() -> T) {
        let allocated = allocation_counter::measure(|| drop(black_box(routine())));
        assert_eq!(allocated.count_total, 0, "{name}");
        let mut samples = Vec::new();
        self.group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let start = Instant::now();
                for _ in 0..iterations {
                    black_box(routine());
                }
                let elapsed = start.elapsed();
                samples.push(elapsed.as_secs_f64() * 1e9 / iterations as f64);
                elapsed
            });
        });
        // Earlier samples are the warm-up. There are fewer if nothing is measured.
        if let Some(first) = samples.len().checked_sub(SAMPLES) {
            let measured = &mut samples[first..];
            measured.sort_by(f64::total_cmp);
            self.medians.push((name, measured[SAMPLES / 2]));
        }
    }
}
