# For suite.pm of both suites. MariaDB 10.11 runs with the defaults of 11.8 that the tests rely on, as a combination of its own:
# results that differ all the same are in r/TEST,mariadb_10.rdiff. 11.8 has no combination. (The runner makes the database
# `test` in latin1.)
package TidesdbLaterDefaults;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

my @options = qw(--character-set-server=utf8mb4 --collation-server=utf8mb4_uca1400_ai_ci --innodb-snapshot-isolation=ON
  --loose-tidesdb-snapshot-conflicts=ON
  --optimizer-switch=hash_join_cardinality=on,cset_narrowing=on);
push @options, '--init-file=' . abs_path(dirname(__FILE__) . '/test_database.sql');

# The suite's combinations.
sub combinations {
  return $::mysql_version_id < 110000 ? [ { name => 'mariadb_10', comb_opt => [@options] } ] : undef;
}

1;
