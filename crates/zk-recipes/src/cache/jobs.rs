//! What a cache has yet to read.

use alloc::collections::{BTreeMap, VecDeque};

use zk_session::sync::Arc;

/// What to read of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Data,
    Children,
    /// Whether the root exists, if it was missing: sets a one-shot watch for its creation.
    Existence,
}

/// A part of a node that is to be read, or is being read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Job {
    /// Whether the walk waits for it.
    pub(super) is_of_walk: bool,
    is_under_way: bool,
    /// Whether the part may have changed since the request under way.
    pub(super) is_outdated: bool,
    /// Whether the node was deleted since the request under way.
    pub(super) is_deleted: bool,
}

/// At most one job for each part of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    jobs: BTreeMap<Arc<str>, [Option<Job>; 3]>,
    queue: VecDeque<(Arc<str>, Part)>,
    of_walk: usize,
    bytes: usize,
}

impl Jobs {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of nodes with jobs.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the length of all paths, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether no job is left that the walk waits for.
    pub(super) fn is_walk_over(&self) -> bool {
        self.of_walk == 0
    }

    /// Adds a job, or has the part read again if it is being read.
    pub(super) fn want(&mut self, path: &Arc<str>, part: Part, is_of_walk: bool) {
        if !self.jobs.contains_key(path) {
            self.bytes += path.len();
        }
        let job = &mut self.jobs.entry(path.clone()).or_default()[part as usize];
        match job {
            Some(job) => {
                job.is_outdated |= job.is_under_way;
                self.of_walk += usize::from(is_of_walk && !job.is_of_walk);
                job.is_of_walk |= is_of_walk;
            }
            None => {
                *job = Some(Job { is_of_walk, ..Job::default() });
                self.of_walk += usize::from(is_of_walk);
                self.queue.push_back((path.clone(), part));
                self.forget_deleted();
            }
        }
    }

    /// Drops places in the queue whose job was deleted, if most were.
    fn forget_deleted(&mut self) {
        if self.queue.len() <= 6 * self.jobs.len() + 8 {
            return;
        }
        self.queue = VecDeque::new();
        for (path, jobs) in &self.jobs {
            for part in [Part::Data, Part::Children, Part::Existence] {
                if jobs[part as usize].is_some_and(|job| !job.is_under_way) {
                    self.queue.push_back((path.clone(), part));
                }
            }
        }
    }

    /// Takes the next job whose request is to be submitted.
    pub(super) fn begin_next(&mut self) -> Option<(Arc<str>, Part)> {
        loop {
            let (path, part) = self.queue.pop_front()?;
            let job = self.jobs.get_mut(&path).and_then(|jobs| jobs[part as usize].as_mut());
            if let Some(job) = job.filter(|job| !job.is_under_way) {
                job.is_under_way = true;
                return Some((path, part));
            }
        }
    }

    /// Removes the job of a request.
    pub(super) fn finish(&mut self, path: &Arc<str>, part: Part) -> Option<Job> {
        let jobs = self.jobs.get_mut(path)?;
        let job = jobs[part as usize].take();
        if jobs.iter().all(Option::is_none) {
            self.jobs.remove(path);
            self.bytes -= path.len();
        }
        self.of_walk -= usize::from(job.is_some_and(|job| job.is_of_walk));
        job
    }

    /// Puts a failed job back into the queue.
    pub(super) fn repeat(&mut self, path: Arc<str>, part: Part) {
        if let Some(job) = self.finish(&path, part) {
            self.want(&path, part, job.is_of_walk);
        }
    }

    /// The node was deleted. What is still queued need not be read.
    pub(super) fn deleted(&mut self, path: &str) {
        let Some(jobs) = self.jobs.get_mut(path) else { return };
        for job in jobs.iter_mut() {
            if let Some(queued) = job.take_if(|job| !job.is_under_way) {
                self.of_walk -= usize::from(queued.is_of_walk);
            }
            if let Some(job) = job {
                job.is_deleted = true;
                // What was to be read again is gone.
                job.is_outdated = false;
            }
        }
        if jobs.iter().all(Option::is_none) {
            self.jobs.remove(path);
            self.bytes -= path.len();
        }
    }
}

#[cfg(test)]
mod tests;
