use Cwd qw(abs_path);
use File::Basename qw(dirname);

# As the suite of nodes that do not take part: its provider, and its state transfer.
my $suite = do './suite/tidesdb_galera/suite.pm';
die $@ if $@;
my $here = abs_path(dirname(__FILE__));
# With the real one, too, which calls the server's and rsync.
$ENV{PATH} = "$here/../tidesdb_galera:$here/../../../sst:$::bindir/bin:$ENV{PATH}";
$suite;
