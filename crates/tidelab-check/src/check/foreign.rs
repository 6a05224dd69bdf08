//! `foreign`: random writers on tables with foreign keys over three generations, and one to itself, at every
//! isolation level, in both lock modes, with definitions, KILL, restarts and SIGKILL meanwhile.
//!
//! No child is without its parent: while the writers are at work in any snapshot, and after each round in the
//! tables. Each writer knows its own rows, under parents that cannot go. Indexes agree with the rows, and
//! information_schema shows the acknowledged definitions. At the end faults are planted; the looks must find
//! them.

mod definer;
mod definitions;
mod kept;
mod scene;
mod statements;
mod writer;

use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use self::definer::Definer;
use self::definitions::{Definitions, DATABASE, KEYS, TABLES};
use self::scene::{ClientCounts, Line, Phase, Scene};
use self::writer::Writer;
use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const WRITERS: i64 = 6;
/// With fewer rows in all tables writers hardly meet.
const FEW: i64 = 60;
/// Before a round's end, the time for transactions to stay prepared.
const ENDING: Duration = Duration::from_millis(200);

/// The end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Quiet,
    Kill,
    Restart,
    /// Killed once more while it recovers.
    KillTwice,
}

impl End {
    fn of(round: u32) -> End {
        match round % 4 {
            1 => End::Kill,
            2 => End::Quiet,
            3 => End::KillTwice,
            _ => End::Restart,
        }
    }
}

/// The clients besides writers and definer.
#[derive(Default)]
struct Others {
    kills: u64,
    /// Orphans were looked for so often while writers were at work.
    looks: u64,
    complaints: Vec<String>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let seconds = lab.seconds.unwrap_or(if lab.short { 8 } else { 240 });
    let mut random = StdRng::seed_from_u64(lab.seed);
    let settings = settings::checks(random.random_bool(0.5));
    let mut server = lab.start(&settings)?;
    let mut definer = Definer::new(Definitions::draw(&mut random));
    make_tables(&server, &definer.definitions, &mut random)?;
    let mut writers: Vec<Writer> = (1..=WRITERS).map(Writer::new).collect();
    let mut others = Others::default();
    let (mut complaints, mut ends) = (Vec::new(), [0_u32; 2]);
    let (mut loaded, mut round, mut least) = (Duration::ZERO, 0, i64::MAX);
    while loaded < Duration::from_secs(seconds) && complaints.is_empty() {
        lab.interrupt.check()?;
        round += 1;
        let end = End::of(round);
        let pessimistic = (round + round / 4) % 2;
        set_up(
            &mut connect(&server)?,
            &[&format!("SET GLOBAL tidesdb_pessimistic_locking = {pessimistic}")],
        )?;
        let time = Duration::from_millis(random.random_range(1000..if lab.short { 2000 } else { 4000 }));
        let before = total(&writers, &definer);
        load(&mut server, &mut writers, &mut definer, &mut others, time, end, &mut random)?;
        loaded += time;
        match end {
            End::Quiet => {}
            End::Restart => server.shut_down()?,
            End::Kill => {}
            End::KillTwice => {
                let delay = Duration::from_millis(random.random_range(100..700));
                server.crash_while_starting(&settings, delay)?;
            }
        }
        if end != End::Quiet {
            server.restart(&settings, lab.interrupt)?;
            ends[usize::from(end != End::Restart)] += 1;
        }
        let mut session = connect(&server)?;
        let wrong = must("look", look(&mut session, &mut writers, &mut definer, &mut others, &mut random))?;
        let after = total(&writers, &definer);
        let rows = must("count", count(&mut session, &definer.definitions))?;
        least = least.min(rows);
        progress(
            Check::Foreign,
            &format!(
                "round {round} ({end:?}, {} locks): {} statements, {} commits, {} prepared left, {rows} rows, {} wrong",
                if pessimistic == 1 { "pessimistic" } else { "optimistic" },
                after.statements - before.statements,
                after.commits - before.commits,
                after.left - before.left,
                wrong.len()
            ),
        );
        complaints.extend(wrong.into_iter().map(|complaint| format!("round {round}: {complaint}")));
    }
    let all = total(&writers, &definer);
    if complaints.is_empty() {
        complaints.extend(too_little(&all, &others, lab.short));
        if least < FEW {
            complaints.push(format!("{least} rows were left after a round"));
        }
        complaints.extend(planted(&mut connect(&server)?, &mut definer, &mut writers, &mut random)?);
    }
    let errors: Vec<String> = all.errors.iter().map(|(code, times)| format!("{times} x {code}")).collect();
    let summary = format!(
        "{round} rounds, {} statements, {} commits, {} rollbacks, {} left prepared, errors {}; {} KILLs ({} \
         connections), {} SIGKILLs, {} restarts, {} looks for orphans under load",
        all.statements,
        all.commits,
        all.rollbacks,
        all.left,
        errors.join(", "),
        others.kills,
        all.lost,
        ends[1],
        ends[0],
        others.looks
    );
    progress(Check::Foreign, &format!("answered: {:?}", all.kinds));
    conclude(server, summary, complaints)
}

fn total(writers: &[Writer], definer: &Definer) -> ClientCounts {
    let mut all = definer.tally.clone();
    writers.iter().for_each(|writer| all.add(&writer.tally));
    all
}

fn make_tables(server: &Server, definitions: &Definitions, random: &mut StdRng) -> Result<()> {
    let mut session = connect(server)?;
    let mut all = definitions.statements();
    all.push("BEGIN".to_string());
    all.extend(statements::fill(random));
    all.push("COMMIT".to_string());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    set_up(&mut session, &all)
}

/// Puts all clients on the server and ends the round.
fn load(
    server: &mut Server,
    writers: &mut [Writer],
    definer: &mut Definer,
    others: &mut Others,
    time: Duration,
    end: End,
    random: &mut StdRng,
) -> Result<()> {
    let scene = Scene::new(server.socket(), definer.notes.clone());
    let mut seed = || StdRng::seed_from_u64(random.random());
    let (mut looks, mut kills) = (Others::default(), Others::default());
    let ended = thread::scope(|scope| {
        let scene = &scene;
        for writer in writers {
            let random = seed();
            scope.spawn(move || {
                if let Some(failure) = scene.unexplained(writer.work(scene, random)) {
                    writer.complaints.push(format!("writer {}: {failure}", writer.number));
                }
            });
        }
        let random = seed();
        scope.spawn(move || {
            if let Some(failure) = scene.unexplained(definer.work(scene, random)) {
                definer.complaints.push(format!("definitions: {failure}"));
            }
        });
        let (random, looks) = (seed(), &mut looks);
        scope.spawn(move || {
            if let Some(failure) = scene.unexplained(onlook(scene, random, looks)) {
                looks.complaints.push(format!("onlooker: {failure}"));
            }
        });
        let (random, kills) = (seed(), &mut kills);
        scope.spawn(move || {
            if let Some(failure) = scene.unexplained(kill(scene, random, kills)) {
                kills.complaints.push(format!("killer: {failure}"));
            }
        });
        scene.pause(time.saturating_sub(ENDING));
        scene.enter(Phase::Ending);
        scene.pause(ENDING.min(time));
        match end {
            End::Kill | End::KillTwice => {
                let alive = server.check_alive();
                scene.enter(Phase::Killed);
                alive.and(server.crash())
            }
            End::Quiet | End::Restart => {
                scene.enter(Phase::Over);
                server.check_alive()
            }
        }
    });
    others.kills += kills.kills;
    others.looks += looks.looks;
    others.complaints.append(&mut looks.complaints);
    others.complaints.append(&mut kills.complaints);
    ended
}

/// Looks for orphans while the writers are at work: in no snapshot is a child without its parent.
fn onlook(scene: &Scene, mut random: StdRng, done: &mut Others) -> std::result::Result<(), Failure> {
    let definitions = Definitions::draw(&mut random);
    let mut line: Option<Line> = None;
    while scene.goes_on() {
        let mut now = match line.take() {
            Some(line) => line,
            None => Line::open(scene, None)?,
        };
        let key = random.random_range(0..KEYS.len());
        let level = if random.random_bool(0.5) { "READ COMMITTED" } else { "REPEATABLE READ" };
        let steps = scene.steps(key);
        let query = definitions.orphans(key);
        let answer = now
            .session
            .run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))
            .and_then(|_| now.session.rows(&query));
        match answer {
            Ok(rows) => {
                // Missing at no moment since before the snapshot.
                if steps % 2 == 0 && scene.steps(key) == steps {
                    done.looks += 1;
                    if !rows.is_empty() {
                        let again = now.session.rows(&query);
                        let table = now.session.rows(&format!("SHOW CREATE TABLE {}", KEYS[key].child));
                        done.complaints.push(format!(
                            "orphans of {}: {level}, under load: {query}: {rows:?}, then {again:?} in {table:?}, connection {} {}",
                            KEYS[key].name,
                            now.id,
                            scene.notes.show()
                        ));
                        return Ok(());
                    }
                }
                line = Some(now);
            }
            Err(Failure::Lost(_)) => {}
            // Killed, or a table has another name or definition.
            Err(Failure::Sql { code: 1317 | 1146 | 1412 | 1205 | 1213, .. }) => line = Some(now),
            Err(failure) => return Err(failure),
        }
        scene.pause(Duration::from_millis(random.random_range(0..10)));
    }
    Ok(())
}

/// Kills statements and connections of the others.
fn kill(scene: &Scene, mut random: StdRng, done: &mut Others) -> std::result::Result<(), Failure> {
    let mut line = Line::open(scene, None)?;
    while scene.goes_on() {
        scene.pause(Duration::from_millis(random.random_range(20..120)));
        let running = if random.random_bool(0.8) { "AND command = 'Query'" } else { "" };
        let found = line.session.numbers(&format!(
            "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = '{DATABASE}' \
             {running} ORDER BY RAND() LIMIT 1"
        ))?;
        let Some(id) = found.first().map(|row| row[0]) else { continue };
        let what = if random.random_bool(0.75) { "QUERY" } else { "CONNECTION" };
        let kill = scene::kill_note(what, id);
        match line.session.run(&kill) {
            Ok(_) => {
                scene.notes.add(&kill);
                done.kills += 1;
            }
            // It ended by itself.
            Err(Failure::Sql { code: 1094, .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The conditions with no client at work.
fn look(
    session: &mut Session,
    writers: &mut [Writer],
    definer: &mut Definer,
    others: &mut Others,
    random: &mut StdRng,
) -> std::result::Result<Vec<String>, Failure> {
    scene::prepare(session)?;
    scene::await_none(
        session,
        &format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{DATABASE}' AND id <> CONNECTION_ID()"
        ),
    )?;
    let there = definitions::read(session)?;
    definer.compare(&there);
    let mut wrong = std::mem::take(&mut definer.complaints);
    let is_known = wrong.is_empty();
    wrong.append(&mut others.complaints);
    if !is_known {
        // Neither names nor foreign keys are.
        wrong.extend(writers.iter_mut().flat_map(|writer| std::mem::take(&mut writer.complaints)));
        return Ok(wrong);
    }
    // With transactions that are prepared, and without.
    wrong.extend(faults(session, &definer.definitions)?);
    if let Err(failure) = writers_settle(session, definer, writers, random) {
        wrong.push(format!("writers' rows: {failure}"));
    }
    wrong.extend(writers.iter_mut().flat_map(|writer| std::mem::take(&mut writer.complaints)));
    let left = session.rows("XA RECOVER")?;
    if !left.is_empty() {
        wrong.push(format!("prepared transactions of nobody: {left:?}"));
    }
    wrong.extend(faults(session, &definer.definitions)?);
    if wrong.is_empty() {
        if let Err(failure) = definer.restore(session, random) {
            wrong.push(format!("definitions at rest: {failure}"));
        }
        definer.compare(&definitions::read(session)?);
        wrong.append(&mut definer.complaints);
        wrong.extend(faults(session, &definer.definitions)?);
        forget_history(session, &definer.definitions)?;
    }
    Ok(wrong)
}

/// History would grow without bound, and copies of tables with it.
fn forget_history(session: &mut Session, definitions: &Definitions) -> std::result::Result<(), Failure> {
    for (table, _) in TABLES.iter().filter(|(table, _)| definitions.is_versioned(table)) {
        session.run(&format!("DELETE HISTORY FROM {}", definitions.name(table)))?;
    }
    Ok(())
}

/// Writers decide their prepared transactions and compare their rows. Their table's name may be another one.
fn writers_settle(
    session: &mut Session,
    definer: &Definer,
    writers: &mut [Writer],
    random: &mut StdRng,
) -> std::result::Result<(), Failure> {
    let table = definer.definitions.name("kept");
    writers.iter_mut().try_for_each(|writer| writer.settle(session, &table, random))
}

/// Children without parents, and tables whose indexes do not agree.
fn faults(session: &mut Session, definitions: &Definitions) -> std::result::Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    for key in (0..KEYS.len()).filter(|key| definitions.keys[*key].is_some()) {
        let query = definitions.orphans(key);
        let rows = session.rows(&query)?;
        if !rows.is_empty() {
            wrong.push(format!("orphans of {}: {query}: {rows:?}", KEYS[key].name));
        }
    }
    for (table, _) in TABLES {
        let check = format!("CHECK TABLE {} EXTENDED", definitions.name(table));
        for row in session.rows(&check)? {
            if row.get(3).map(String::as_str) != Some("OK") {
                wrong.push(format!("{check}: {}", row.join(" ")));
            }
        }
    }
    Ok(wrong)
}

/// The rows of all tables.
fn count(session: &mut Session, definitions: &Definitions) -> std::result::Result<i64, Failure> {
    let mut rows = 0;
    for (table, _) in TABLES {
        rows += session.number(&format!("SELECT COUNT(*) FROM {}", definitions.name(table)))?;
    }
    Ok(rows)
}

/// Complaints about an idle check.
fn too_little(all: &ClientCounts, others: &Others, short: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    if all.commits < 100 || others.kills == 0 || others.looks == 0 {
        complaints.push(format!(
            "{} commits, {} KILLs, {} looks under load",
            all.commits, others.kills, others.looks
        ));
    }
    let errors = [1451, 1452, 1062].iter().filter(|code| !all.errors.contains_key(code));
    complaints.extend(errors.map(|code| format!("nothing was refused with {code}")));
    if !short {
        let kinds = statements::KINDS.iter().chain(&definer::KINDS);
        let missing = kinds.filter(|kind| !all.kinds.contains_key(*kind));
        complaints.extend(missing.map(|kind| format!("no {kind} was answered")));
    }
    complaints
}

/// Plants an orphan for each foreign key, and takes a writer's row away: each must be found.
fn planted(
    session: &mut Session,
    definer: &mut Definer,
    writers: &mut [Writer],
    random: &mut StdRng,
) -> Result<Vec<String>> {
    must("prepare", scene::prepare(session))?;
    set_up(
        session,
        &[
            "SET SESSION foreign_key_checks = 0",
            "REPLACE INTO p (id, g, gk, v) VALUES (-1, 9001, 9002, 0)",
            "REPLACE INTO c (id, p, g, u, v) VALUES (-1, 9003, 9004, NULL, 0)",
            "REPLACE INTO t (id, up, v) VALUES (-1, 9005, 0)",
            "REPLACE INTO kept (id, p, u, v) VALUES (1999, 9006, NULL, 0)",
            "SET SESSION foreign_key_checks = 1",
        ],
    )?;
    let start = Instant::now();
    let found = must("look", faults(session, &definer.definitions))?;
    let mut complaints: Vec<String> = KEYS
        .iter()
        .filter(|key| !found.iter().any(|line| line.starts_with(&format!("orphans of {}:", key.name))))
        .map(|key| format!("a planted orphan of {} was not found", key.name))
        .collect();
    must("settle", writers_settle(session, definer, writers, random))?;
    if !writers.iter_mut().any(|writer| !std::mem::take(&mut writer.complaints).is_empty()) {
        complaints.push("a planted row of a writer was not found".to_string());
    }
    let before = definer.definitions.clone();
    definer.definitions.keys[0] = None;
    definer.compare(&must("look", definitions::read(session))?);
    if std::mem::take(&mut definer.complaints).is_empty() {
        complaints.push("a foreign key of nobody was not found".to_string());
    }
    definer.definitions = before;
    progress(
        Check::Foreign,
        &format!("{} planted faults found in {:.1} s", found.len(), start.elapsed().as_secs_f64()),
    );
    Ok(complaints)
}
