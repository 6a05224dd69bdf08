package My::Suite::TidesDBGaleraKeys;

@ISA = qw(My::Suite);

# The provider that writes down keys (plugin/test/wsrep_recorder.c): `make test-galera-keys` builds it.
return "Needs WSREP_RECORDER" unless $ENV{WSREP_RECORDER} && -e $ENV{WSREP_RECORDER};
$ENV{TIDESDB_CLUSTER} = 1;
push @::global_suppressions,
  qr(WSREP: ),
  qr(TidesDB: );

bless {};
