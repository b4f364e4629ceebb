#!/usr/bin/env bash
# on_two_hosts.sh COMMAND...: runs the command in an environment where mpirun.openmpi and mpirun.mpich place a job's processes alternately on two
# hosts. For instance `scripts/on_two_hosts.sh ctest --test-dir build -R distributed/job_.*openmpi`. Both hosts are this machine: the second one
# has its own network, processes, shared memory, mounts and host name, in namespaces, and is reached by TCP only, so a test cannot kill its
# processes. Needs root; if namespaces are not permitted, says so and exits with 77.
set -u
name=mf$$ net=10.99.9 folder=$(mktemp -d)
skip() { echo "skipped: $1"; exit 77; }
ends() {
    ip netns del "${name}a" 2>/dev/null
    ip netns del "${name}b" 2>/dev/null
    rm -rf "$folder"
}
trap ends EXIT
ip netns add "${name}a" 2>/dev/null && ip netns add "${name}b" 2>/dev/null || skip "network namespaces are not permitted"
ip link add "${name}a" netns "${name}a" type veth peer name "${name}b" netns "${name}b" 2>/dev/null || skip "veth is not permitted"
for side in a b; do
    at=$name$side
    [ $side = a ] && address=$net.1 || address=$net.2
    ip -n "$at" link set lo up && ip -n "$at" link set "$at" up && ip -n "$at" addr add $address/24 dev "$at" || skip "addresses are not permitted"
done
unshare --mount --pid --fork --ipc --uts --mount-proc true 2>/dev/null || skip "namespaces of processes are not permitted"
mkdir "$folder/bin"
cat >"$folder/second" <<'END'
#!/bin/sh
hostname second && mount -t tmpfs none /dev/shm || exit 1
exec sh -c "$*"
END
cat >"$folder/shell" <<END
#!/bin/sh
# in place of ssh: the host's address, and what runs there
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
[ "\$host" = $net.2 ] || exec sh -c "\$*"
exec ip netns exec ${name}b unshare --mount --pid --fork --ipc --uts --mount-proc $folder/second "\$@"
END
cat >"$folder/bin/mpirun.openmpi" <<END
#!/usr/bin/env bash
# mpirun warns that it cannot move what runs in place of ssh to a group of its own
exec 2> >(grep -v 'setpgid(.*Permission denied' >&2)
exec ip netns exec ${name}a $(command -v mpirun.openmpi) --allow-run-as-root --host $net.1:64,$net.2:64 --map-by node \\
    --mca plm_rsh_agent $folder/shell --mca oob_tcp_if_include $net.0/24 --mca btl_tcp_if_include $net.0/24 "\$@"
END
cat >"$folder/bin/mpirun.mpich" <<END
#!/bin/sh
exec ip netns exec ${name}a $(command -v mpirun.mpich) -launcher rsh -launcher-exec $folder/shell -hosts $net.1,$net.2 "\$@"
END
chmod +x "$folder/second" "$folder/shell" "$folder"/bin/*
PATH=$folder/bin:$PATH "$@"
