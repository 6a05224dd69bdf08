#!/usr/bin/perl
# run-suites.pl PREFIX BASEDIR WORKDIR KNOWN [SUITE...]: the server's own suites, once with InnoDB as the default
# engine and once with TidesDB, and a table of what passed. A test that InnoDB passes and TidesDB does not must
# stand in the file KNOWN with its reason, for all 11.8 or for a range of its releases; else the end is an error. Lines of KNOWN that are not true any more are listed.
#
# Suites of a cluster (galera, galera_3nodes, wsrep) run in the same way, with these differences: results were recorded
# with InnoDB, and count as they are. Options stand in the configuration of each node, since tests start servers with it.
# InnoDB runs without the plugin, TidesDB with tidesdb_cluster=ON, both at once, and both with the state transfer of
# our own suites. A line of KNOWN that is not true any more is an error there, unless its reason begins with
# "sometimes", or "copy:" where TidesDB's own state transfer is there. ORACLE=last takes InnoDB's results of the last run.
#
# How it works: a suite is copied into a tree of links next to BASEDIR (scripts/plugin/basedir.sh). InnoDB runs it
# as it is; where its result differs from the file, which was recorded with another engine, it is recorded anew:
# InnoDB's answer is the one that counts. Then the word InnoDB becomes TidesDB in tests, results and options, and the
# copy runs once more. Tests that are of another engine by their name are left out, and so are differences in what is
# not part of an answer: plans, and how many rows an ALTER copied. `storage_engine` is a suite for any engine, given one by an overlay (its define_engine.inc): ours is written into
# the copy. Of `main` those tests are run that name no other engine; type_* and fulltext* are suites of their own. Of `innodb`,
# `rpl` and `binlog` those run that have foreign keys.
# Of full text the rows that are found are compared, neither their scores nor their order.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Copy qw(copy);
use File::Find qw(find);
use File::Path qw(make_path remove_tree);
use IO::Handle;
use POSIX ();

my @SUITES = qw(storage_engine storage_engine/trx storage_engine/parts gcol vcol type_* sql_sequence period versioning parts
  handler json engines/funcs engines/iuds fulltext* innodb_fts innodb rpl binlog main);
# Of innodb_fts: about InnoDB's own tables of words, and its variables for them.
my %INNODB_WORDS = map { $_ => 1 } qw(create index_table innodb_ft_aux_table innodb_fts_stopword_charset opt stopword);
# Run for their foreign keys alone: the rest of them is about InnoDB's files, or about the server.
my %FOREIGN_ONLY = map { $_ => 1 } qw(innodb rpl binlog);
# The first hangs with InnoDB itself as the default engine; the second waits for what InnoDB's views show.
my $HANGS = qr/^(innodb_mysql|innodb_i_s_innodb_trx)$/;
my $OTHERS = qr/myisam|maria|aria|archive|memory|blackhole|heap|merge|csv|rocksdb/i;
# In the text of a test of `main`: other engines, and what is about a program or a build and not about tables.
my $NOT_NEUTRAL = qr/myisam|\baria|memory|archive|blackhole|\bheap\b|\bcsv\b|federated|rocksdb|perfschema|have_debug|big_test|valgrind
  |windows|embedded|mysqldump|optimizer_trace|_ssl|ssl_|udf/xi;

# Suites that need a provider; each has files of the others.
my %CLUSTER = map { $_ => 1 } qw(galera galera_3nodes wsrep);
# State transfers: the copy of our own suites, and TidesDB's, where there is one.
my @TRANSFERS = map { abs_path(dirname(__FILE__) . "/../../plugin/$_") } 'mysql-test/suite/tidesdb_galera', 'sst';
my $TRANSFER = (grep { defined && -x "$_/wsrep_sst_tidesdb" } @TRANSFERS) ? 'tidesdb' : 'copy';
# Their tests wait for tables by InnoDB's views, for which the server has its own.
my %VIEWS = (
  tables => q{SELECT CONCAT(TABLE_SCHEMA, '/', TABLE_NAME) AS NAME FROM INFORMATION_SCHEMA.TABLES ORDER BY 1 LIMIT 10000},
  indexes => 'SELECT INDEX_NAME AS NAME FROM INFORMATION_SCHEMA.STATISTICS',
  columns => 'SELECT COLUMN_NAME AS NAME FROM INFORMATION_SCHEMA.COLUMNS');
# These transfer InnoDB's tables alone, and are refused (docs/manual/galera.md).
my $REFUSED_TRANSFER = qr/wsrep[_-]sst[_-]method\s*=\s*['"]?(rsync|mariabackup|mysqldump|xtrabackup)|galera_sst_method\.inc/i;

my ($prefix, $base, $work, $known_file, @suites) = @ARGV;
die "usage: run-suites.pl PREFIX BASEDIR WORKDIR KNOWN [SUITE...]\n" unless $known_file;
@suites = @SUITES unless @suites;
STDOUT->autoflush(1);
my $only = $ENV{TESTS} || '';
# For 10.11 the second is a link to the first (scripts/plugin/basedir.sh).
my $tests_dir = 'share/mariadb/' . (-l "$base/share/mariadb/mariadb-test" ? 'mysql-test' : 'mariadb-test');
my @columns = qw(pass fail skipped);

# --- known differences: suite.test[,combination] [FROM..TO] : reason ---
# The range of the server's releases may lack an end: [11.8.7..] holds from 11.8.7 on.
my ($release) = `$prefix/bin/mariadbd --no-defaults --version` =~ /Ver (\d+(?:\.\d+)+)/ or die "$prefix has no server that runs\n";
sub number { my @parts = split /\./, shift; sprintf '%03d%03d%03d', map { $_ // 0 } @parts[0 .. 2] }
sub in_range {
  my ($from, $to) = @_;
  return (!length $from || number($from) <= number($release)) && (!length $to || number($release) <= number($to));
}
my %known;
open(my $in, '<', $known_file) or die "$known_file: $!\n";
while (<$in>) {
  next if /^\s*(#|$)/;
  die "$known_file:$.: 'test [from..to] : reason' expected\n"
    unless /^(\S+)(?:\s+\[([\d.]*?)\.\.([\d.]*)\])?\s+:\s+(\S.*)$/;
  my ($test, $from, $to, $reason) = ($1, $2, $3, $4);
  next if $reason =~ /^copy:/ && $TRANSFER ne 'copy';
  $known{$test} = $reason if !defined $from || in_range($from, $to);
}
close $in;

my (%table, @unknown, @stale);
for my $suite (@suites) {
  # The folder that is copied, and which of its tests; storage_engine's parts have files of the folder above.
  my ($folder, $pattern) = $suite =~ /^(type_|fulltext)/ ? ('main', "^$1") : $suite eq 'main' ? ('main', '') : ("suite/$suite", '');
  $folder = 'suite/storage_engine' if $suite =~ m{^storage_engine/};
  my $mtr_suite = $folder eq 'main' ? 'main' : $suite;
  my $test_folder = $folder eq 'main' ? 'main' : "suite/$suite";
  my %status;
  my $tree = "$work/innodb";
  make_tree($tree, $folder);
  copy_tree("$prefix/$tests_dir/$folder", "$tree/$tests_dir/$folder", \&only_innodb, $pattern);
  if ($CLUSTER{$suite}) {
    my @others = grep { $_ ne $suite } sort keys %CLUSTER;
    copy_suite("$prefix/$tests_dir", $tree, "suite/$_", \&only_innodb) for @others;
    my @tests = tests_of("$tree/$tests_dir/$test_folder", $suite, $mtr_suite, $pattern);
    next unless @tests;
    my $other = "$work/tidesdb";
    make_tree($other, $folder);
    copy_tree("$tree/$tests_dir/$folder", "$other/$tests_dir/$folder", \&on_nodes, '');
    copy_suite("$tree/$tests_dir", $other, $_, \&on_nodes) for 'include', map { "suite/$_" } @others;
    %status = run_both($tree, $other, $mtr_suite, \@tests);
    die "no test of $suite ran: see $work\n" unless %{ $status{InnoDB} } && %{ $status{TidesDB} };
    compare($suite, \%status);
    next;
  }
  my @tests = tests_of("$tree/$tests_dir/$test_folder", $suite, $mtr_suite, $pattern);
  next unless @tests;
  my $got = run($tree, 'InnoDB', $mtr_suite, [@tests]);
  # Another engine's results. A test that ran in several combinations has one file for all: it stays as it is.
  my %combinations;
  $combinations{s/,.*//r}++ for keys %$got;
  my @again = grep { $combinations{$_} == 1 } map { s/,.*//r } grep { $got->{$_} eq 'fail' } keys %$got;
  if (@again) {
    my $recorded = run($tree, 'InnoDB', $mtr_suite, \@again, '--record');
    $got->{$_} = $recorded->{$_} for keys %$recorded;
  }
  $status{InnoDB} = $got;

  my $other = "$work/tidesdb";
  make_tree($other, $folder);
  copy_tree("$tree/$tests_dir/$folder", "$other/$tests_dir/$folder", \&with_tidesdb, '');
  unlink "$other/$tests_dir/include";
  copy_tree("$prefix/$tests_dir/include", "$other/$tests_dir/include", \&with_tidesdb, '');
  $status{TidesDB} = run($other, 'TidesDB', $mtr_suite, [@tests]);
  compare($suite, \%status);
}

printf "\n%-16s %24s   %24s   %s\n", 'suite', 'InnoDB pass fail skipped', 'TidesDB pass fail skipped', 'known';
for my $suite (@suites) {
  next unless $table{$suite};
  printf "%-16s", $suite;
  for my $engine (qw(InnoDB TidesDB)) {
    printf " %11d %4d %7d  ", map { $table{$suite}{$engine}{$_} || 0 } @columns;
  }
  printf " %6d\n", $table{$suite}{known} || 0;
}
print "\nInnoDB passes, TidesDB does not, and no reason is known:\n", map { "  $_\n" } @unknown if @unknown;
print "\nknown differences that are none any more:\n", map { "  $_\n" } @stale if @stale;
my @wrong = (@unknown, grep { $CLUSTER{s/\..*//r} } @stale);
if (grep { $CLUSTER{$_} } keys %table) {
  my %sum;
  for my $counts (map { $_->{TidesDB} } values %table) { $sum{$_} += $counts->{$_} || 0 for @columns }
  my $known = 0;
  $known += $_->{known} || 0 for values %table;
  printf "mtr: %d passed, %d failed (%d known), %d skipped; %s\n", $sum{pass}, $sum{fail}, $known, $sum{skipped},
    @wrong ? 'unexpected: ' . join(' ', map { s/ .*//r } @wrong) : 'nothing unexpected';
}
exit(@wrong ? 1 : 0);

# Counts what passed, and looks differences up in the list.
sub compare {
  my ($suite, $status) = @_;
  my %status = %$status;
  for my $engine (qw(InnoDB TidesDB)) {
    $table{$suite}{$engine}{$_}++ for values %{ $status{$engine} };
  }
  my %holds;
  for my $test (sort keys %{ $status{InnoDB} }) {
    my $result = $status{TidesDB}{$test} || 'skipped';
    my $differs = $status{InnoDB}{$test} eq 'pass' && $result ne 'pass';
    # The line of the list, which without a combination is for all of them.
    my ($line) = grep { $known{$_} } $test, $test =~ s{,.*}{}r;
    # In a cluster InnoDB does not pass each time, and tells nothing of the line then.
    $holds{$line} ||= $differs if $line && !($CLUSTER{$suite} && $status{InnoDB}{$test} ne 'pass');
    $table{$suite}{known}++ if $differs && $line;
    push @unknown, "$test [$result]" if $differs && !$line;
  }
  push @stale, grep { !$holds{$_} && $known{$_} !~ /^sometimes\b/ } sort keys %holds;
}

# A tree of links to $base, without one folder below mysql-test: all directories on the way to it are real ones, so
# that nothing is written through a link.
sub make_tree {
  my ($tree, $folder) = @_;
  make_path("$work", "$tree");
  remove_tree("$tree/share");
  my @way = split m{/}, "$tests_dir/$folder";
  my $place = '';
  for my $next (@way) {
    make_path("$tree$place");
    for my $entry (glob("$base$place/*")) {
      my $name = basename($entry);
      next if $name eq $next || ($name eq 'var' && $place eq "/$tests_dir") || -l "$tree$place/$name";
      # Other engines' overlays of the suite.
      next if $name eq 'plugin' && $place eq "/$tests_dir" && $folder eq 'suite/storage_engine';
      symlink $entry, "$tree$place/$name" or die "$tree$place/$name: $!\n";
    }
    $place .= "/$next";
  }
}

sub copy_tree {
  my ($from, $to, $change, $pattern) = @_;
  # The folders of MariaDB are shared by all clones: only a directory of our own is written.
  die "$to: exists\n" if -e $to || -l $to;
  my $above = abs_path(dirname($to)) || die dirname($to) . ": $!\n";
  die "$to: not below $work\n" unless index("$above/", abs_path($work) . '/') == 0;
  find(
    {
      follow => 1, no_chdir => 1,
      wanted => sub {
        my $name = substr($_, length $from);
        return make_path("$to$name") if -d $_;
        my $file = basename($_);
        return if $file eq 'disabled.def' && $from =~ m{/storage_engine$};  # old result files: InnoDB's are made anew
        return if $pattern && $file =~ /\.(test|result|rdiff|opt|combinations)$/ && $file !~ /$pattern/;
        if ($file =~ /(\.(test|inc|result|rdiff|opt|combinations|cnf)|^combinations|^suite\.pm)$/) {
          open(my $in, '<:raw', $_) or die "$_: $!\n";
          my $text = do { local $/; <$in> };
          open(my $out, '>:raw', "$to$name") or die "$to$name: $!\n";
          print $out $change->($file, defined $text ? $text : '');
        } else {
          copy($_, "$to$name") or die "$_: $!\n";
        }
      }
    },
    $from);
}

# The same where the tree has a link.
sub copy_suite {
  my ($from, $tree, $folder, $change) = @_;
  unlink "$tree/$tests_dir/$folder";
  copy_tree("$from/$folder", "$tree/$tests_dir/$folder", $change, '');
}

# Of combinations that differ in the engine, InnoDB's; system versioning by transaction id is InnoDB's alone.
sub only_innodb {
  my ($file, $text) = @_;
  if ($file eq 'define_engine.inc') {
    $text =~ s/^let \$default_col_opts/let \$ENGINE = InnoDB;\n$&/m;
    return $text . quietly('ALTER DATABASE test CHARACTER SET latin1 COLLATE latin1_swedish_ci');
  }
  return $text . quietly('ALTER DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci') if $file eq 'cleanup_engine.inc';
  return with_options($text, 'wsrep_sst_method=copy') if $file =~ /\.cnf$/ && $text =~ /wsrep/;
  # A server that a test starts by itself does not run as root, unless it is told to.
  return $text =~ s/^--exec \$MYSQLD .*?(?=--wsrep[-_]recover)/$&--user=root /gmr if $> == 0 && $file =~ /_wsrep_recover\.inc$/;
  return $text unless $file =~ /combinations$/ && $text =~ /innodb/i;
  my @sections = grep { /\S/ } split /^(?=\[)/m, $text;
  @sections = grep { !/storage-engine\s*=\s*(?!innodb)\w/i && !/^\[(trx_id|myisam)\]/m } @sections;
  return join '', @sections;
}

# With options of all nodes, where the file of a cluster's nodes begins. A test's own file comes later, and counts.
sub with_options {
  my ($text, @options) = @_;
  return $text unless $text =~ /wsrep|\/rpl\//;
  my $lines = join "\n", '[mysqld]', @options;
  $text =~ s/^!include\s+(include\/default_my(sqld)?|\S*rpl\/my)\.cnf\n/$&\n$lines\n/m;
  return $text;
}

sub quietly { return "\n--disable_query_log\n$_[0];\n--enable_query_log\n" }

sub with_tidesdb {
  my ($file, $text) = @_;
  return $text if $file eq 'suite.pm';
  if ($file =~ /(\.opt|combinations|\.cnf)$/) {
    $text =~ s/(default[-_]storage[-_]engine\s*=\s*)innodb/$1TidesDB/gi;
    return $text;
  }
  return join '', map {
    my $line = $_;
    $line =~ s/(?<![\w\/.\-])innodb(?![\w\/\-]|\.\w)/TidesDB/gi unless $line =~ /^\s*(--\s*)?source\b|^InnoDB\t\t|log_slow_verbosity/i;
    $line;
  } split /^/m, $text;
}

# The same for the nodes of a cluster.
sub on_nodes {
  my ($file, $text) = @_;
  # A warning that has to be there.
  return $text =~ s/^bless \{/push \@::global_suppressions, qr(TidesDB: BACKUP STAGE START: a backup by these stages);\n$&/mr
    if $file eq 'suite.pm';
  $text =~ s/\b(enforce[-_]storage[-_]engine|gtid[-_]pos[-_]auto[-_]engines)\s*=\s*\Kinnodb/TidesDB/gi if $file =~ /\.(cnf|opt)$/;
  $text =~ s/^wsrep_sst_method=\Kcopy$/$TRANSFER/m if $file =~ /\.cnf$/;
  # The quotes keep the option from being a comment.
  return with_options(with_tidesdb($file, $text), 'plugin-load-add=ha_tidesdb', 'plugin-maturity=experimental',
    "loose-tidesdb-data-home-dir='#tidesdb'", 'loose-tidesdb-cluster=ON') if $file =~ /\.cnf$/;
  # The option without "add" takes the options before it back.
  return with_tidesdb($file, $text) =~ s/--plugin-load\K(?==)/-add/gr =~ s/--innodb[-_]lock[-_]wait[-_]timeout=(\d+)/$& --loose-tidesdb-lock-wait-timeout-ms=${1}000/gr
    if $file =~ /(\.opt|combinations)$/;
  # The server replicates sequences of InnoDB alone, and has tables of its own in it.
  $text =~ s/^(\s*create\s+(?:or\s+replace\s+)?(?:temporary\s+)?sequence\b(?!.*\bengine\b).*?);/$1 ENGINE=InnoDB;/gmi;
  $text = join '', map { /\bcreate\b.*\bsequence\b|ENGINE=InnoDB.* (SEQUENCE=1|CHARSET=latin1\b.* STATS_PERSISTENT=0)$/i ? $_ : with_tidesdb($file, $_) } split /^/m, $text;
  $text =~ s/\bgtid_slave_pos_\Kinnodb\b/TidesDB/gi;
  $text =~ s/\binnodb_lock_wait_timeout\s*=\s*(\d+)/tidesdb_lock_wait_timeout_ms=${1}000/gi;
  return $text =~ s/\binformation_schema\.innodb_sys_(tables|indexes|columns)\b/"($VIEWS{lc $1}) AS of_tables"/gier;
}

sub tests_of {
  my ($folder, $suite, $mtr_suite, $pattern) = @_;
  my @files = glob("$folder/*.test $folder/t/*.test");
  @files = grep { basename($_) !~ /^(type_|fulltext)/ && neutral($_) } @files if $suite eq 'main';
  @files = grep { has_foreign_keys($_) } @files if $FOREIGN_ONLY{$suite};
  my @names = map { basename($_, '.test') } @files;
  @names = grep { !$INNODB_WORDS{$_} } @names if $suite eq 'innodb_fts';
  @names = grep { /$pattern/ } @names if $pattern;
  @names = grep { $_ !~ $OTHERS && $_ !~ $HANGS } @names unless $CLUSTER{$suite};
  @names = grep { may_transfer("$folder/t/$_") } @names if $CLUSTER{$suite};
  @names = grep { /$only/ } @names if $only;
  return map { "$mtr_suite.$_" } sort @names;
}

# A test that is about a refused method of state transfer is none of ours; of others it is an option.
sub may_transfer {
  my ($test) = @_;
  for my $file (grep { -f } "$test.test", "$test.cnf") {
    open(my $in, '<:raw', $file) or die "$file: $!\n";
    return 0 if grep { $_ =~ $REFUSED_TRANSFER } <$in>;
  }
  return 1;
}

sub neutral {
  my ($file) = @_;
  open(my $in, '<:raw', $file) or die "$file: $!\n";
  # Lines that only print, or are comments, use nothing.
  return !grep { !/^\s*(?:#|(?:--\s*)?echo\b)/i && $_ =~ $NOT_NEUTRAL } <$in>;
}

# In the text of the test. A build for debugging is not ours; the sizes of pages, and tablespaces, are InnoDB's.
sub has_foreign_keys {
  my ($file) = @_;
  open(my $in, '<:raw', $file) or die "$file: $!\n";
  my $text = do { local $/; <$in> };
  return $text =~ /\bforeign\s+key|\breferences\s+[`\w]+\s*\(/i
    && $text !~ m{have_debug(_sync)?\.inc|include/innodb_page_size|\b(import|discard)\s+tablespace}i;
}

# What became of each test: pass, fail, skipped. Tests that a runner which ended early has left are run by another.
sub run {
  my ($tree, $engine, $suite, $tests, @options) = @_;
  my (%status, @left);
  for my $round (1 .. 4) {
    my %tried = map { s/,.*//r => 1 } keys %status;
    @left = grep { !$tried{$_} } @$tests;
    last if !@left || ($round > 1 && !%tried);
    my $now = run_once($tree, $engine, $suite, \@left, $round, @options);
    %status = (%status, %$now);
  }
  printf "%-16s %-8s%s: %s\n", $suite, $engine, (@options ? ', recorded' : ''),
    join(', ', map { my $w = $_; scalar(grep { $_ eq $w } values %status) . " $w" } @columns);
  print "  did not run: @left\n" if @left;
  return \%status;
}

# Nodes of a cluster wait more than they work: both engines at once, each with one cluster at a time.
sub run_both {
  my ($tree, $other, $suite, $tests) = @_;
  my $stored = "$work/$suite.innodb.status";
  my %last;
  if (open(my $in, '<', $stored)) {
    %last = map { chomp; split / / } <$in>;
  }
  my $oracle = 0;
  unless (($ENV{ORACLE} || '') eq 'last' && %last) {
    $oracle = fork // die "fork: $!\n";
    if ($oracle == 0) {
      my $got = run($tree, 'InnoDB', $suite, $tests);
      open(my $out, '>', $stored) or die "$stored: $!\n";
      %last = (%last, %$got);
      print $out map { "$_ $last{$_}\n" } sort keys %last;
      close $out or die "$stored: $!\n";
      POSIX::_exit(0);
    }
  }
  my %status = (TidesDB => run($other, 'TidesDB', $suite, $tests));
  die "InnoDB's run of $suite ended early\n" if $oracle && (waitpid($oracle, 0) != $oracle || $?);
  open(my $in, '<', $stored) or die "$stored: $!\n";
  my %wanted = map { $_ => 1 } @$tests;
  $status{InnoDB} = { map { chomp; my ($test, $result) = split / /; $wanted{$test =~ s/,.*//r} ? ($test => $result) : () } <$in> };
  return %status;
}

sub run_once {
  my ($tree, $engine, $suite, $tests, $round, @options) = @_;
  my $name = $suite =~ s{/}{_}r . '.' . lc($engine) . (@options ? '.record' : '') . ($round > 1 ? ".$round" : '');
  my $log = "$work/$name.log";
  my $cluster = $CLUSTER{$suite};
  my @command = (
    'perl', './mtr', "--suite=$suite", '--parallel=' . ($cluster || @options ? 1 : $ENV{MTR_PARALLEL} || 2),
    "--vardir=$work/var" . ($cluster ? '-' . lc $engine : ''), "--client-bindir=$prefix/bin", '--force',
    '--max-test-fail=0', '--retry=0', '--testcase-timeout=' . ($cluster ? 5 : 3),
    ($cluster ? () : (
      '--mysqld=--innodb', '--mysqld=--plugin-load-add=ha_tidesdb', '--mysqld=--plugin-maturity=experimental',
      '--mysqld=--tidesdb-data-home-dir=#tidesdb', "--mysqld=--default-storage-engine=$engine")),
    ($> == 0 ? '--user=root' : ()), @options, @$tests);
  my $pid = open(my $output, '-|') // die "fork: $!\n";
  if ($pid == 0) {
    chdir "$tree/$tests_dir" or die "$tree: $!\n";
    $ENV{MTR_BUILD_THREAD} = 'auto';
    $ENV{PATH} = join ':', (grep { defined } @TRANSFERS), "$prefix/bin", $ENV{PATH};
    open STDIN, '<', '/dev/null';
    open STDERR, '>&', \*STDOUT;
    exec @command or die "perl: $!\n";
  }
  open(my $copy, '>', $log) or die "$log: $!\n";
  $copy->autoflush(1);
  my (%status, %ended);
  while (<$output>) {
    print $copy $_;
    next unless /^(\S+)(?:\s+'([^']*)')?\s+(?:w\d+\s+)?\[ (pass|fail|skipped|disabled|retry-\w+)\s*\]\s*(\d*)/;
    my ($alone, $combination, $word, $time) = ($1, $2, $3, $4);
    my $test = defined $combination ? "$alone,$combination" : $alone;
    my $what = $word eq 'disabled' ? 'skipped' : $word =~ /fail/ ? 'fail' : $word;
    $what = 'pass' if $what eq 'fail' && $engine eq 'TidesDB' && same_answers($tree, $suite, $test);
    $status{$test} = $what;
    # Minutes without a word look like a hang.
    $ended{$alone} = 1;
    printf STDERR "%-8s %3d of %d  %-60s %s %s\n", $engine, scalar keys %ended, scalar @$tests, $test, $what, $time
      if $cluster && $what ne 'skipped';
  }
  close $copy or die "$log: $!\n";
  close $output;
  print "  see $log\n" unless %status;
  return \%status;
}

# Whether the result of a test that failed differs in plans and the like alone.
sub same_answers {
  my ($tree, $suite, $test) = @_;
  my $name = $test =~ s/^\Q$suite\E\.//r;
  my $folder = $suite eq 'main' ? 'main' : "suite/$suite";
  my $alone = $name =~ s/,.*//r;
  my ($reject) = grep { -f } map { ("$tree/$tests_dir/$folder/$_$name.reject", "$tree/$tests_dir/$folder/$_$alone.reject") } '', 'r/';
  return 0 unless $reject;
  my ($expected) = grep { -f } map { $reject =~ s/[^\/]*$/$_.result/r } $name, $alone;
  return 0 unless $expected;
  my $is_full_text = $test =~ /fulltext|^innodb_fts\./;
  my $same = answers($expected, $is_full_text) eq answers($reject, $is_full_text);
  # Another combination of the test that ends without a file must not be taken for this one.
  rename $reject, $reject =~ s/\.reject$/" $test.reject"/er if $test =~ /,/;
  return $same;
}

sub answers {
  my ($file, $is_full_text) = @_;
  open(my $in, '<:raw', $file) or die "$file: $!\n";
  my $text = do { local $/; <$in> };
  # Notes that ROW_FORMAT and KEY_BLOCK_SIZE have no effect, alone or among other warnings.
  $text =~ s/^Note\t1478\tTidesDB: \w+ has no effect\n//gm;
  $text =~ s/^Warnings:\n(?!Warning\t|Note\t|Error\t)//gm;
  $text =~ s/^\S+\toptimize\tnote\tTable does not support optimize.*\n//gm;
  $text =~ s/^\S+\.ibd\n//gm;
  # A note that the server writes at some time after a change of the log's file.
  $text =~ s/^# at \S+\n#.*\tBinlog checkpoint .*\n//gm;
  # SHOW PROCESSLIST: numbers of connections, and seconds.
  $text =~ s/^\d+(\troot\tlocalhost\S*\t\S*\t\S+\t)\d+\t/#$1#\t/gm;
  $text =~ s/^(affected rows: |info: Records: ).*\n//gm;
  # Costs; EXPLAIN and ANALYZE, as a table, as JSON, and the query that EXPLAIN EXTENDED tells.
  $text =~ s/^Note\t1003\t.*\n//gm;
  $text =~ s/^Last_query_cost\t.*\n//gm;
  $text =~ s/^(id\tselect_type\ttable\t.*\n)(?:(?:\d+|NULL)\t[A-Z][A-Z ]*\t.*\n)+/$1/gm;
  $text =~ s/^(EXPLAIN|ANALYZE)\n\{\n.*?\n\}\n/$1\n/gms;
  return $text unless $is_full_text;
  # Scores, and the order of what stands between the ends of two statements.
  $text =~ s/(?<![\w.])\d+\.\d{3,}(e-?\d+)?(?![\w.])/N/g;
  return join '', map { join '', sort split /^/m } split /(?<=;\n)/, $text;
}
