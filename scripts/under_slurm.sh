#!/usr/bin/env bash
# under_slurm.sh COMMAND...: runs the command in an environment where Slurm's srun launches jobs: mpirun.openmpi is srun --mpi=pmix, and
# mpirun.mpich is srun --mpi=pmi2. For instance `scripts/under_slurm.sh make test TESTS=distributed/`. Starts a Slurm on this machine only, with its
# own key, ports and folders, and stops it in the end. Needs root, slurm-wlm and munge; without them it says so and exits with 77.
set -u
for program in munged slurmctld slurmd srun; do
    command -v $program >/dev/null || { echo "skipped: there is no $program (packages slurm-wlm and munge)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: Slurm's daemons start as root only"; exit 77; }
folder=$(mktemp -d) host=$(hostname -s)
ends() {
    for daemon in slurmd slurmctld munged; do
        [ ! -s "$folder/$daemon.pid" ] || kill "$(cat "$folder/$daemon.pid")" 2>/dev/null
    done
    sleep 1
    rm -rf "$folder"
}
trap ends EXIT
mkdir "$folder/state" "$folder/spool" "$folder/bin"
chmod 755 "$folder"
head -c 128 /dev/urandom >"$folder/key"
chmod 600 "$folder/key"
cat >"$folder/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=256 RealMemory=1000000
PartitionName=all Nodes=ALL Default=YES
END
export SLURM_CONF=$folder/slurm.conf
munged --force --key-file="$folder/key" --socket="$folder/munge" --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" \
    --seed-file="$folder/seed" && slurmctld && slurmd || { cat "$folder"/*.log; exit 1; }
for ((i = 0; i < 60; i++)); do
    sinfo --noheader --format=%t 2>/dev/null | grep -q '^idle' && break
    sleep 0.5
done
# launcher NAME KIND LIBRARY: writes a script that takes mpirun's options and passes the number of processes to srun. Unlike mpirun, srun does not
# end the job when a process dies.
launcher() {
    cat >"$folder/bin/$1" <<END
#!/usr/bin/env bash
while [ \$# -gt 0 ]; do
    case \$1 in
    -n) count=\$2; shift 2; break ;;
    --bind-to) shift 2 ;;
    --mca) shift 3 ;;
    *) shift ;;
    esac
done
export MF_MPI_LIBRARY=\${MF_MPI_LIBRARY-$3}
exec srun --quiet --kill-on-bad-exit=0 --overcommit --mpi=$2 -n "\$count" "\$@"
END
    chmod +x "$folder/bin/$1"
}
launcher mpirun.openmpi pmix libmpi.so.40
launcher mpirun.mpich pmi2 libmpich.so.12
PATH=$folder/bin:$PATH "$@"
