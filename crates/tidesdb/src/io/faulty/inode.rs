//! A file of the faulty disk: its content for reads, its durable content, and every version in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The unit of writing to the platter, in bytes.
pub(super) const PAGE: usize = 4096;

type Page = [u8; PAGE];
type Pages = BTreeMap<u64, Arc<Page>>;

/// The part of a write to one page.
#[derive(Clone, Debug)]
struct Delta {
    op: u64,
    start: usize,
    bytes: Arc<[u8]>,
}

/// Versions of a page possible on the platter: `base` with the first n `deltas`. `base` can differ from the
/// durable page: a failed sync leaves bytes in the cache, counted as clean.
#[derive(Clone, Debug)]
struct DirtyPage {
    base: Arc<Page>,
    deltas: Vec<Delta>,
}

impl DirtyPage {
    fn version(&self, deltas: usize) -> Arc<Page> {
        let mut page = self.base.clone();
        for delta in &self.deltas[..deltas] {
            let page = Arc::make_mut(&mut page);
            page[delta.start..delta.start + delta.bytes.len()].copy_from_slice(&delta.bytes);
        }
        page
    }
}

/// See the module's comment. Absent pages are zeros; bytes past the length are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    live: Pages,
    live_len: u64,
    durable: Pages,
    durable_len: u64,
    dirty: BTreeMap<u64, DirtyPage>,
    /// Pages whose blocks were given back, as far as reads tell: not what a power cut leaves of them.
    holes: BTreeSet<u64>,
    /// Unsynced changes of the length: (operation, new length).
    lens: Vec<(u64, u64)>,
}

impl Inode {
    pub(super) fn len(&self) -> u64 {
        self.live_len
    }

    /// Bytes without the holes.
    pub(super) fn allocated(&self) -> u64 {
        self.live_len.saturating_sub(self.holes.len() as u64 * PAGE as u64)
    }

    /// Makes a range zeros, and gives its whole pages back.
    pub(super) fn punch(&mut self, op: u64, offset: u64, len: u64) {
        let len = len.min(self.live_len.saturating_sub(offset));
        self.write(op, &vec![0; len as usize], offset);
        self.holes.extend(offset.div_ceil(PAGE as u64)..(offset + len) / PAGE as u64);
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = (buf.len() as u64).min(self.live_len.saturating_sub(offset)) as usize;
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let (page, start) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let part = (PAGE - start).min(n - done);
            match self.live.get(&page) {
                Some(bytes) => buf[done..done + part].copy_from_slice(&bytes[start..start + part]),
                None => buf[done..done + part].fill(0),
            }
            done += part;
        }
        n
    }

    pub(super) fn write(&mut self, op: u64, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (number, start) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let part = (PAGE - start).min(bytes.len() - done);
            self.write_page(op, number, start, &bytes[done..done + part]);
            done += part;
        }
        let end = offset + bytes.len() as u64;
        if !bytes.is_empty() && end > self.live_len {
            self.live_len = end;
            self.lens.push((op, end));
        }
    }

    fn write_page(&mut self, op: u64, number: u64, start: usize, bytes: &[u8]) {
        self.holes.remove(&number);
        let page = self.live.entry(number).or_insert_with(|| Arc::new([0; PAGE]));
        let dirty =
            self.dirty.entry(number).or_insert_with(|| DirtyPage { base: page.clone(), deltas: Vec::new() });
        dirty.deltas.push(Delta { op, start, bytes: bytes.into() });
        Arc::make_mut(page)[start..start + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn set_len(&mut self, op: u64, len: u64) {
        if len == self.live_len {
            return;
        }
        if len < self.live_len {
            let first = len / PAGE as u64;
            let keep = (len % PAGE as u64) as usize;
            let cut: Vec<u64> = self.live.range(first..).map(|(number, _)| *number).collect();
            for number in cut {
                let start = if number == first { keep } else { 0 };
                self.write_page(op, number, start, &[0; PAGE][start..]);
            }
        }
        self.live_len = len;
        self.lens.push((op, len));
    }

    pub(super) fn sync(&mut self) {
        for number in std::mem::take(&mut self.dirty).into_keys() {
            let page = self.live.get(&number).expect("a dirty page is in the cache");
            self.durable.insert(number, page.clone());
        }
        self.durable_len = self.live_len;
        self.lens.clear();
    }

    /// Each dirty page by a coin; all of them are clean afterwards.
    pub(super) fn sync_failed(&mut self, random: &mut dyn FnMut() -> u64) {
        for number in std::mem::take(&mut self.dirty).into_keys() {
            if random() & 1 == 0 {
                let page = self.live.get(&number).expect("a dirty page is in the cache");
                self.durable.insert(number, page.clone());
            }
        }
        if random() & 1 == 0 {
            self.durable_len = self.live_len;
        }
        self.lens.clear();
    }

    pub(super) fn forget_pending(&mut self) {
        self.dirty.clear();
        self.lens.clear();
    }

    pub(super) fn pending_ops(&self) -> impl Iterator<Item = u64> + '_ {
        let pages = self.dirty.values().flat_map(|p| p.deltas.iter().map(|d| d.op));
        pages.chain(self.lens.iter().map(|(op, _)| *op))
    }

    fn with(&self, mut pages: Pages, len: u64) -> Inode {
        let end = len.div_ceil(PAGE as u64);
        pages.retain(|number, _| *number < end);
        let keep = (len % PAGE as u64) as usize;
        if keep > 0 {
            if let Some(last) = pages.get_mut(&(end - 1)) {
                Arc::make_mut(last)[keep..].fill(0);
            }
        }
        let is_empty = |number: &u64| pages.get(number).is_none_or(|page| **page == [0; PAGE]);
        let holes = self.holes.iter().copied().filter(|number| *number < end && is_empty(number)).collect();
        Inode {
            live: pages.clone(),
            live_len: len,
            durable: pages,
            durable_len: len,
            holes,
            ..Inode::default()
        }
    }

    /// After a power cut with all operations below `whole` on the platter, and pages of `torn` by a coin.
    pub(super) fn after_cut(&self, whole: u64, torn: Option<u64>, random: &mut dyn FnMut() -> u64) -> Inode {
        let mut pages = self.durable.clone();
        for (number, dirty) in &self.dirty {
            let torn_too = torn.is_some() && random() & 1 == 0;
            let n =
                dirty.deltas.iter().take_while(|d| d.op < whole || (torn_too && Some(d.op) == torn)).count();
            if n > 0 {
                pages.insert(*number, dirty.version(n));
            }
        }
        let torn_too = random() & 1 == 0;
        let mut lens = self.lens.iter().filter(|(op, _)| *op < whole || (torn_too && Some(*op) == torn));
        self.with(pages, lens.next_back().map_or(self.durable_len, |(_, len)| *len))
    }

    /// After a power cut with some version of each page on the platter.
    pub(super) fn after_reordering(&self, random: &mut dyn FnMut() -> u64) -> Inode {
        let mut pages = self.durable.clone();
        for (number, dirty) in &self.dirty {
            let n = random() as usize % (dirty.deltas.len() + 1);
            if n > 0 {
                pages.insert(*number, dirty.version(n));
            }
        }
        let n = random() as usize % (self.lens.len() + 1);
        self.with(pages, self.lens[..n].last().map_or(self.durable_len, |(_, len)| *len))
    }

    /// Changes a stored byte without a call to the disk.
    pub(super) fn damage(&mut self, offset: u64, change: impl Fn(u8) -> u8) {
        let (number, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
        for pages in [&mut self.live, &mut self.durable] {
            let page = Arc::make_mut(pages.entry(number).or_insert_with(|| Arc::new([0; PAGE])));
            page[at] = change(page[at]);
        }
        if let Some(dirty) = self.dirty.get_mut(&number) {
            // Later versions of the page hold the damaged byte too.
            let base = Arc::make_mut(&mut dirty.base);
            base[at] = change(base[at]);
            for delta in &mut dirty.deltas {
                if (delta.start..delta.start + delta.bytes.len()).contains(&at) {
                    let mut bytes = delta.bytes.to_vec();
                    bytes[at - delta.start] = change(bytes[at - delta.start]);
                    delta.bytes = bytes.into();
                }
            }
        }
    }
}
