//! Named marks: what a set of runs must have met to prove anything. Each fault and each way of
//! recovering has one; a sweep that misses one says so.

/// Declares the marks with the names under which reports show them.
macro_rules! marks {
    ($($mark:ident $name:literal,)*) => {
        /// Something that a run met.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $(#[doc = $name] $mark,)*
        }

        impl Mark {
            /// All marks.
            pub const ALL: &'static [Mark] = &[$(Mark::$mark,)*];

            /// The name in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mark::$mark => $name,)*
                }
            }
        }
    };
}

marks! {
    // Faults of the store.
    StoreRefused "a write was refused",
    StoreHappened "a write happened and was reported in doubt",
    StoreLost "a write was lost and reported in doubt",
    LogTorn "a write to the log was torn",
    SyncFailed "a sync of the log failed",
    ReadFailed "a read failed",
    ReadFlipped "a read gave a flipped bit",
    DiskFull "the disk was full",
    StoreSlow "an operation of the store was slow",
    StoreHung "an operation of the store hung",
    // Crashes, and what they leave.
    CrashNothing "a crash lost all that was not synced",
    CrashEverything "a crash lost nothing",
    CrashPrefix "a crash kept a prefix of what was not synced",
    CrashScattered "a crash kept scattered sectors of what was not synced",
    CrashInLogWrite "a crash during a write to the log",
    CrashInLogSync "a crash during a sync of the log",
    CrashInManifest "a crash during a commit of the manifest",
    CrashInSegment "a crash while a segment was finished",
    CrashInDelete "a crash during a removal",
    CrashInCreateLog "a crash while a log file was made",
    CrashInOpen "a crash during recovery",
    WallBack "the machine's clock was set back at a restart",
    WallForward "the machine's clock was set forward at a restart",
    JumpedBack "the machine's clock was set back while the database ran",
    JumpedForward "the machine's clock was set forward while the database ran",
    StoodStill "the machine's clock stood still while the database ran",
    StoodInOpen "the machine's clock stood still while the database was opened",
    // Ways of recovering.
    OpenRefused "an opening failed under faults, and a later one did not",
    Closed "the database was closed and opened again",
    GroupMoved "a group was acknowledged though a write or sync of the log failed",
    CommitRefused "a commit was refused for certain",
    CommitInDoubt "a commit ended in doubt",
    DoubtSurvived "a batch in doubt was there after a crash",
    DoubtLost "a batch in doubt was not there after a crash",
    UnheardSurvived "a batch whose writer crashed was there",
    UnheardLost "a batch whose writer crashed was not there",
    WriterGone "a writer stopped waiting for its commit",
    Duplicate "a batch was acknowledged as a duplicate",
    SentAgain "a numbered batch that was lost was sent again",
    Fenced "a session was refused that woke up after a newer one had been opened",
    ProducerKnown "a new session was told the number that its producer had sent last",
    // What was read, and how.
    ReadOpen "an answer from the open SCU",
    ReadIngested "an answer from unsorted SCUs",
    ReadSorted "an answer from sorted runs",
    ReadMerged "an answer from merged runs",
    ReadAuthority "an answer from the authority",
    ReadMixed "an answer from three stages or more",
    ReadPoint "a row read by its key",
    ReadRange "a range of keys read",
    ReadOwn "a transaction read its own changes",
    ReadView "an answer from a secondary view",
    ViewAside "a view left the answer to its table",
    ReadHeld "a snapshot read again much later",
    ReadExact "a count known without reading",
    BestEffort "a best-effort answer",
    Bounded "an answer within a bound",
    BoundUsed "an answer that left out acknowledged batches within its bound",
    MissError "a bound that was missed and refused",
    MissStale "a bound that was missed and answered stale",
    MissWait "a bound that was waited for",
    Floor "an answer at a session's floor",
    AsOfScu "an answer as of an SCU",
    AsOfTime "an answer as of a time",
    AsOfGone "a past that is not kept any more",
    AsOfTooMuch "a past within the retention, refused as too much was superseded",
    SnapshotEnded "a read refused as its snapshot kept too much and was ended",
    Expired "rows that had ended",
    Combined "values that a merge operator combined",
    Partitioned "a table with partitions",
    Split "a key range was split",
    // ID keys.
    ReadMap "a key map was read whole",
    IdEarly "an ID read before anything had written it down",
    IdKept "an ID that was read early, and again in the authority",
    ReferenceMade "a reference to a new key made its owner's row",
    ReferenceKnown "a reference to a key whose owner's row is gone",
    LookupUnknown "a row sought by a natural key that has no ID",
    NumberWritten "a reference written by its number",
    RemapRefused "a commit of the remap stage was refused",
    RemapHappened "a commit of the remap stage happened and was reported in doubt",
    RemapLost "a commit of the remap stage was lost and reported in doubt",
    CrashInRemap "a crash during a commit of the remap stage",
    RemappedAgain "numbers given out before a restart were given out again",
    MapReadFailed "a read of a key map failed",
    MapFlipped "a read of a key map gave a flipped bit",
    RemapPaused "the remap stage was paused",
    // Changes of definitions.
    ColumnAdded "a column was added",
    ColumnDropped "a column was dropped",
    ColumnRenamed "a column was renamed",
    ColumnWidened "a column was widened",
    Commented "a definition that says the same under another version",
    Stale "a batch was refused because a table had changed",
    BoundAgain "a batch was bound again, to a newer definition",
    MarkTold "a producer's mark told of a batch that its table's change kept from being sent again",
    AsOfOlder "a past read with the columns that it had",
    // What operators do.
    Paused "a stage was paused",
    SettleRefused "settling was refused while a stage was paused",
    Sealed "an SCU was sealed on request",
    SettledSorted "everything was sorted on request",
    SettledAuthority "everything reached the authority",
    Truncated "a table was emptied, with a batch",
    PartitionReplaced "a range partition was dropped and added again, with a batch",
    PartitionAltered "the same, with another definition of its table",
    PartitionEmpty "a past read in which such a partition was empty",
    Verified "all files were read back",
    Collected "files that nothing named were removed",
    LostForAWhile "a file that could not be read for a while was taken for lost, and found again",
    Struck "a file was damaged for good",
    HealedForGood "a file that was damaged for good was made again",
    LostForGood "rows that nothing holds any more were refused by name",
    Throttled "writers had to wait for the stages",
    // Batches that fill more than a frame.
    FramesSeveral "a batch of several frames",
    FramesOfScus "a batch whose frames were written under several SCUs",
    FramesInFiles "a batch whose frames stand in several log files",
    FramesDropped "a batch that was never committed, of which frames had been written",
    // Views and tables that come and go.
    ViewMade "a view was made over rows",
    ViewDropped "a view was dropped",
    ViewMadeRead "an answer from a view that was made over rows",
    TableRemade "a table was dropped and made again, with a batch",
    TableEmpty "a read at a horizon before its table was made",
    // Damage for good of what tells of all else: the log, and the files of the manifest.
    LogStruck "a log file was damaged for good",
    LogBytesTorn "bytes of a log file that were durable were torn for good",
    EditStruck "an edit of the manifest was damaged for good",
    CheckpointStruck "a checkpoint of the manifest was damaged for good",
    OpenWithoutLog "an opening was refused for a damaged log file, by name",
    OpenWithoutEdit "an opening was refused for a damaged edit, by name",
    OpenedBesideLog "a database was opened though a log file was damaged",
    OpenedBesideManifest "a database was opened though a file of its manifest was damaged",
    OpenedTwiceTold "a database that had been closed was opened though a file was damaged",
    LogLost "a table was refused by name for a damaged log file",
    LogRestored "a log file that was restored gave its rows back",
    LogHealed "a damaged log file was made needless by sorting what it holds",
    ManifestReplaced "a damaged file of the manifest was replaced",
    LogGone "a log file was gone as a whole",
    EditGone "an edit of the manifest was gone as a whole",
    CheckpointGone "a checkpoint of the manifest was gone as a whole",
    GoneToldByReady "an opening missed the newest log file: the one that was ready behind it told",
    GoneToldByNext "an opening missed a log file: the frames of the next one told",
    GoneToldByBatch "an opening missed the newest edit: a batch told that was written after it",
    GoneInMiddle "an opening missed an edit between others",
    OpenedWithoutLog "a database was opened though a log file was gone",
    OpenedWithoutManifest "a database was opened though a file of its manifest was gone",
    GoneLogBack "a log file that was gone and came back gave its rows back",
    GoneReplaced "a verification missed an edit, and had all told without it",
    // Sequences.
    NumbersTaken "numbers were taken from a sequence",
    NumbersRefused "numbers were asked for, and refused or in doubt",
    NumbersGoOn "a sequence went on after a restart, behind all that it had given out",
    NumbersSkipped "numbers that were reserved before a restart were left out",
    NumbersAgain "a sequence that begins again where it ends did",
    CrashInReserve "a crash during a commit that reserves numbers",
    SequenceRemade "a sequence was dropped and made again, and began anew",
    // Few changes that are merged into the authority.
    GroupCopied "a row group between others that few changes met was copied",
    GroupPatched "columns of a row group were patched",
    GroupMerged "the rows of a row group were merged by themselves",
    // Attempts that hang.
    AttemptHung "an attempt hung",
    AttemptGivenUp "an attempt that hung was given up, and its work begun again",
    ZombieRefused "an attempt came back after it had been given up, and was refused",
    ZombieFirst "such an attempt came back before the one in its place had ended",
    ZombieCollected "files of such attempts were removed",
    ZombieLeft "the database was closed while such an attempt still hung",
}

/// The bits of one word of [`Marks`].
const WORD_BITS: usize = u128::BITS as usize;
/// Words enough for all marks.
const WORDS: usize = Mark::ALL.len().div_ceil(WORD_BITS);

/// Which marks were met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks([u128; WORDS]);

impl Marks {
    /// Notes a mark.
    pub fn meet(&mut self, mark: Mark) {
        self.0[mark as usize / WORD_BITS] |= 1 << (mark as usize % WORD_BITS);
    }

    /// Adds those of other runs.
    pub fn add(&mut self, other: &Marks) {
        let words = self.0.iter_mut().zip(other.0);
        words.for_each(|(word, other)| *word |= other);
    }

    /// Whether a mark was met.
    pub fn has(&self, mark: Mark) -> bool {
        self.0[mark as usize / WORD_BITS] >> (mark as usize % WORD_BITS) & 1 == 1
    }

    /// Those that were not met.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = Mark::ALL.iter().filter(|mark| !self.has(**mark));
        all.map(|mark| mark.name()).collect()
    }
}
