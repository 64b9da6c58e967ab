//! Drives the machines: does what they want.

use super::*;

impl World {
    /// Gives the machine an input and does what it wants.
    pub(super) fn perform(
        &mut self,
        borrower: usize,
        input: Option<Input>,
        news: Option<News>,
    ) -> Result<(), String> {
        let mut machine = (*self.parties[borrower].machine).clone();
        if let Some(input) = input {
            machine.handle(input);
        }
        let mut outputs = 0;
        while let Some(output) = machine.poll_output() {
            outputs += 1;
            let party = &mut self.parties[borrower];
            match output {
                Output::SetTimer(_) => party.timer = true,
                Output::Settle => machine.handle(Input::Settled),
                Output::Unwatch(OpId(op)) => party.line.unwatch(op),
                Output::Submit { op: OpId(op), operation } => {
                    let wish = operation.with_request(|request| self.wish(request));
                    self.submit(borrower, op, wish);
                }
                Output::Event(event) => self.tell(borrower, &event, news)?,
            }
        }
        if outputs > 12 {
            return Err(format!("{borrower} is busy"));
        }
        let done = machine.is_done();
        let party = &mut self.parties[borrower];
        party.fingerprint = search::fingerprint(|text| machine.hash_into(text));
        party.machine = Rc::new(machine);
        if done {
            self.finish(borrower)?;
        }
        Ok(())
    }

    fn submit(&mut self, borrower: usize, op: u64, wish: Wish) {
        let log = self.log;
        let party = &mut self.parties[borrower];
        if party.line.ended {
            return party.line.inbox.push_back(News::Reply(op, wish, Answer::Ended, 0));
        }
        party.line.asked.push_back((op, wish));
        match wish {
            Wish::Lease(_) => {
                party.asked_for_leases = log;
                party.creations += 1;
                if party.creations > 1 {
                    self.sights.insert(Sight::CreatedAgain);
                }
            }
            Wish::Watch(target) => party.line.watch(op, target),
            _ => {}
        }
    }

    fn wish(&self, request: &Request<'_>) -> Wish {
        let kind = |path: &str| match path.split('/').nth(2) {
            Some("locks") => Kind::Place,
            _ => Kind::Lease,
        };
        let node = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let mut nodes = (0..self.nodes.len()).rev();
            nodes.find(|node| self.name(*node) == name).expect("a node of this world")
        };
        let maximum = "/sem/max";
        match request {
            Request::Create2(_) => Wish::Enter,
            Request::Multi(multi) => Wish::Lease(multi.iter().count() as u32),
            Request::Create(create) => {
                assert_eq!(create.path, maximum);
                Wish::CreateMaximum(
                    create.data.and_then(|data| data.last().copied()).expect("data"),
                )
            }
            Request::CreateContainer(create) => {
                Wish::Directory(kind(create.path), create.path != DIRECTORY)
            }
            Request::Delete(delete) => Wish::Delete(node(delete.path)),
            Request::Exists(exists) => Wish::Stat(node(exists.path)),
            Request::Sync(_) => Wish::Sync,
            Request::GetData(get) if get.path == maximum => Wish::Watch(Target::Maximum),
            Request::GetChildren(list) if list.watch && list.path.ends_with("/leases") => {
                Wish::Watch(Target::Leases)
            }
            Request::GetChildren(list) if list.watch => Wish::Watch(Target::Node(node(list.path))),
            Request::GetChildren(list) => Wish::List(kind(list.path)),
            request => panic!("{request:?}"),
        }
    }
}
