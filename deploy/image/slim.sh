# Takes out of an environment what serving never reads: sh slim.sh FOLDER. docs/deploying.md says what that saves.
set -eu
cd "$1/lib/python3.11/site-packages"
# What compiles against torch, and torch's own tests. torch_shm_manager, the one program that it starts, stays.
rm -rf torch/include torch/test torch/share/cmake
find torch/bin -mindepth 1 -maxdepth 1 ! -name torch_shm_manager -exec rm -r {} +
find torch/lib -name '*test*.so' -delete
find numpy sympy networkx mpmath -type d -name tests -prune -exec rm -r {} +
# Names of functions that only a debugger asks for. Other libraries are small, or were patched in ways that strip may not bear.
strip --strip-unneeded torch/lib/libtorch_cpu.so torch/lib/libtorch_python.so uvloop/loop.*.so
