# Shared by the other scripts: install missing packages, configure, build. Prints to stderr, and only if it does
# something. Settings from the environment:
#
#   MEMTUNE_TORCH_VERSION 2.11 (default) to 2.15: the PyTorch minor to install, build for and test with. Another minor than
#                         the default has builds of its own, build/PRESET-torch-MINOR
#   MEMTUNE_TORCH_PYTHON  a python that has that torch    } instead of the copy that is
#   MEMTUNE_TORCH_DIR     a LibTorch folder of that minor } downloaded into the cache
#   MEMTUNE_TEST_PYTHON   a python for the tests, with torch, torchvision, transformers, timm, safetensors, numpy,
#                         peft, bitsandbytes, highspy, mypy, trl, datasets, sentence-transformers
#   EMSCRIPTEN            folder of Emscripten, for the viewer in browsers; default Debian's
#   MEMTUNE_CACHE         folder of downloads; default $XDG_CACHE_HOME/memtune, shared by all clones
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${MEMTUNE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/memtune}
[[ $cache == /* ]] || cache=$PWD/$cache

# Packages of each PyTorch minor: those that its wheel requires, and those that go with it.
torch_columns=(torch torchvision torchaudio triton nvidia-cuda-runtime nvidia-cuda-cupti nvidia-cublas nvidia-cudnn-cu13
  nvidia-cufft nvidia-nccl-cu13 nvidia-cusparselt-cu13 nvidia-cusparse nvidia-nvshmem-cu13 nvidia-curand nvidia-nvjitlink
  nvidia-cufile nvidia-cusolver nvidia-cuda-nvrtc)
torch_pins='
2.11.0 0.26.0 2.11.0 3.6.0 13.0.96 13.0.85 13.1.0.3 9.19.0.56 12.0.0.61 2.28.9 0.8.0 12.6.3.3 3.4.5 10.4.0.35 13.0.88 1.15.1.6 12.0.4.66 13.0.88
2.12.1 0.27.1 2.11.1 3.7.1 13.0.96 13.0.85 13.1.1.3 9.20.0.48 12.0.0.61 2.29.7 0.8.1 12.6.3.3 3.4.5 10.4.0.35 13.0.88 1.15.1.6 12.0.4.66 13.0.88
2.13.0 0.28.0 2.11.1 3.7.1 13.0.96 13.0.85 13.1.1.3 9.20.0.48 12.0.0.61 2.29.7 0.8.1 12.6.3.3 3.4.5 10.4.0.35 13.0.88 1.15.1.6 12.0.4.66 13.0.88
2.14.1 0.29.2 2.11.1 3.8.0 13.0.96 13.0.85 13.1.1.3 9.24.0.43 12.0.0.61 2.30.7 0.8.1 12.6.3.3 3.4.5 10.4.0.35 13.0.88 1.15.1.6 12.0.4.66 13.0.88
2.15.0 0.29.2 2.11.1 3.9.0 13.2.86 13.2.86 13.4.1.3 9.26.0.51 12.2.0.57 2.30.7 0.8.1 12.7.10.12 3.7.2 10.4.2.66 13.2.86 1.17.1.22 12.2.0.11 13.2.86'
torch_default=2.11
torch_minor=${MEMTUNE_TORCH_VERSION:-$torch_default}
[[ ! $torch_minor =~ ^[0-9]+\.[0-9]+ ]] || torch_minor=${BASH_REMATCH[0]}  # 2.15 of 2.15.0

torch_minors() { sed -n 's/^\([0-9]*\.[0-9]*\)\..*/\1/p' <<<"$torch_pins"; }  # 2.11 2.12 .., a line each

# The pinned packages of a minor, from column FROM on, COUNT of them: "torch==2.15.0 torchvision==0.29.2".
torch_packages() {  # FROM COUNT
  local versions i packages=()
  read -ra versions < <(grep "^${torch_minor//./\\.}\." <<<"$torch_pins") || return
  for ((i = $1; i < $1 + $2; ++i)); do packages+=("${torch_columns[i]}==${versions[i]}"); done
  echo "${packages[*]}"
}
torch_package=$(torch_packages 0 1) || {
  echo "memtune: MEMTUNE_TORCH_VERSION is $torch_minor: known are $(torch_minors | paste -sd ' ')" >&2
  exit 2
}
torch_version=${torch_package#*==}
venv=$cache/python-$torch_version
# shellcheck disable=SC2034  # read as ${!list}
tool_packages="$torch_package $(torch_packages 4 2)"
# shellcheck disable=SC2034
cuda_packages=$(torch_packages 6 12)
# The tests' packages, in the default minor's venv. Other minors add their torch and take the others from there.
test_packages="$(torch_packages 0 2) transformers==5.17.0 timm==1.0.31 safetensors numpy
  peft==0.21.2 accelerate==1.15.0 bitsandbytes==0.50.2 highspy==1.15.1 mypy==2.4.1 datasets==5.2.0
  sentence-transformers==6.2.0"
# shellcheck disable=SC2034
[[ $torch_minor == "$torch_default" ]] || test_packages="$(torch_packages 0 2) $(torch_packages 3 15)"
# shellcheck disable=SC2034
peer_packages="trl==1.16.0"  # tests read one of its files, so its dependencies are not needed
# shellcheck disable=SC2034
zoo_packages=$(torch_packages 2 1)  # its dependencies are in the other sets
# shellcheck disable=SC2034
site_packages="sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19"  # in a venv of their own: scripts/site

# Dear ImGui (docking), ImPlot, GLFW and Roboto, all from one source package.
viewer_version=1.93.0
emscripten=${EMSCRIPTEN:-/usr/share/emscripten}
web_viewer=$root/build/web/bin/memtune-view.html
viewer=$cache/viewer-$viewer_version
viewer_package="imgui-bundle==$viewer_version --hash=sha256:10ad1dab8258a6787b4f07bb926b08d0efc648a7906242568c8dd778c5e719bf"

torch_dir=${MEMTUNE_TORCH_DIR:-}
torch_python=${MEMTUNE_TORCH_PYTHON:-}
[[ $torch_dir || $torch_python ]] || torch_python=$venv/bin/python
test_python=${MEMTUNE_TEST_PYTHON:-${MEMTUNE_TORCH_PYTHON:-$venv/bin/python}}

say() { printf 'memtune: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# --- required system packages -----------------------------------------------------------------------------------------

has_header() {
  [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] || echo "#include <$1>" | "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1
}
has_cmake() {
  has cmake && printf '3.25\ncmake version %s\n' "$(cmake --version)" | grep -o '[0-9]\+\.[0-9]\+[0-9.]*' | sort -VC
}
has_venv() {  # sets python; the first python3 in PATH may lack standard modules
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 && return
  done
  return 1
}

# need PACKAGE WHAT CHECK...: unless CHECK succeeds, records a missing Debian PACKAGE; WHAT describes it on other
# systems.
need() {
  "${@:3}" || { missing+=("$1"); missing_text+=("$(printf '  %-42s (Debian: %s)' "$2" "$1")"); }
}

find_missing() {  # [view|web|test|ci]
  missing=() missing_text=()
  need g++ "g++, a C++20 compiler" has "${CXX:-g++}"
  need cmake "cmake 3.25 or newer" has_cmake
  need ninja-build "ninja" has ninja
  need libcli11-dev "CLI11's header CLI/CLI.hpp" has_header CLI/CLI.hpp
  need nlohmann-json3-dev "the header nlohmann/json.hpp" has_header nlohmann/json.hpp
  need doctest-dev "the header doctest/doctest.h" has_header doctest/doctest.h
  need libxxhash-dev "xxHash's header xxhash.h" has_header xxhash.h
  need liburing-dev "liburing's header liburing.h" has_header liburing.h
  need libsodium-dev "libsodium's header sodium.h" has_header sodium.h
  need libfyaml-dev "libfyaml's header libfyaml.h" has_header libfyaml.h
  need libpcre2-dev "PCRE2's header pcre2.h" has_header pcre2.h
  need zlib1g-dev "zlib's header zlib.h" has_header zlib.h
  need libtomlplusplus-dev "the header toml++/toml.h" has_header toml++/toml.h
  need python3 "python3" has python3
  if [[ ${1:-} == web ]]; then
    need emscripten "Emscripten, or EMSCRIPTEN=FOLDER of one" test -e "$emscripten/cmake/Modules/Platform/Emscripten.cmake"
    [[ -d $viewer ]] || ! has python3 || need python3-venv "python 3.10 or newer with venv and pip" has_venv
  fi
  if [[ ${1:-} == view || ${1:-} == ci ]]; then
    need libxrandr-dev "the header X11/extensions/Xrandr.h" has_header X11/extensions/Xrandr.h
    need libxinerama-dev "the header X11/extensions/Xinerama.h" has_header X11/extensions/Xinerama.h
    need libxcursor-dev "the header X11/Xcursor/Xcursor.h" has_header X11/Xcursor/Xcursor.h
    need libxi-dev "the header X11/extensions/XInput2.h" has_header X11/extensions/XInput2.h
    need libegl-dev "the header EGL/egl.h" has_header EGL/egl.h
    [[ -d $viewer ]] || ! has python3 || need python3-venv "python 3.10 or newer with venv and pip" has_venv
  fi
  if [[ $torch_python == "$venv"/* || (${1:-} == test || ${1:-} == ci) && $test_python == "$venv"/* ]] && has python3; then
    need python3-venv "python 3.10 or newer with venv and pip" has_venv
  fi
  if [[ ${1:-} == ci ]]; then
    need clang-format "clang-format" has clang-format
    need clang-tidy "clang-tidy" has clang-tidy
    need clang "clang++, for libFuzzer" has clang++
  fi
  ((${#missing[@]} == 0))
}

install_system() {  # [view|web|test|ci]
  find_missing "$@" && return
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  if ((EUID != 0)); then
    if [[ -t 0 ]]; then apt=(sudo "${apt[@]}"); else apt=(sudo -n "${apt[@]}"); fi
  fi
  if has apt-get && has "${apt[0]}"; then
    has ccache || missing+=(ccache)  # only for speed: its absence is no error
    has python3 || missing+=(python3-venv)
    # Loaded at run time: software rendering without a GPU, a font's arrows.
    [[ ${1:-} != view && ${1:-} != ci ]] || missing+=(libegl1 libopengl0 libgl1 libgl1-mesa-dri fonts-dejavu-core)
    say "installing Debian packages: ${missing[*]}"
    "${apt[@]}" update >&2 || say "apt-get update failed"
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 || say "apt-get install failed"
    hash -r
    find_missing "$@" && return
  fi
  say "these are missing and have to be installed first:"
  printf '%s\n' "${missing_text[@]}" >&2
  exit 1
}

# --- LibTorch and Python ----------------------------------------------------------------------------------------------

has_nvidia_driver() { [[ -e /proc/driver/nvidia/version || -e /dev/nvidia0 ]] || has nvidia-smi; }

# Sets of Python packages, each with a stamp file that lists the installed packages.
python_sets() {  # [test]
  [[ $torch_python != "$venv"/* ]] || printf 'tool '
  [[ $torch_python != "$venv"/* ]] || ! has_nvidia_driver || printf 'cuda '
  [[ ${1:-} != test || $test_python != "$venv"/* ]] || printf 'test '
  [[ ${1:-} != test || $test_python != "$venv"/* || $torch_minor != "$torch_default" ]] || printf 'peer'
}

python_ready() {  # SET...
  local set list
  for set; do
    list=${set}_packages
    [[ -x $venv/bin/python && -e $venv/.memtune-$set && $(<"$venv/.memtune-$set") == "${!list}" ]] || return 1
  done
}

# Two scripts may run at once, and either may be killed. So there is a lock, and a mark that remains if pip was
# interrupted.
install_python() {  # SET...
  python_ready "$@" && return
  mkdir -p "$cache"
  (
    flock -n 9 || { say "another memtune installs into $cache: waiting"; flock 9; }
    python_ready "$@" && exit
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || { has_venv && "$python" -m venv --clear "$venv"; } ||
      die "python3 -m venv $venv failed"
    for set; do
      python_ready "$set" || install_set "$set"
    done
  ) 9>"$cache/lock" || exit 1
}

install_set() {
  local list=$1_packages mark=$venv/.memtune-installing arguments=() packages
  read -ra packages -d '' <<<"${!list}" || true
  [[ $1 == test && $torch_minor == "$torch_default" || $1 == site ]] || arguments+=(--no-deps)
  [[ ! -e $mark ]] || arguments+=(--ignore-installed)
  say "installing into $venv: ${packages[*]}"
  : >"$mark"
  "$venv/bin/python" -m pip install --disable-pip-version-check "${arguments[@]}" "${packages[@]}" >&2 || {
    [[ $1 != site ]] || die "pip could not install them"
    die "pip could not install them; a LibTorch of your own is taken from MEMTUNE_TORCH_PYTHON or MEMTUNE_TORCH_DIR"
  }
  [[ $torch_minor == "$torch_default" || $1 != test ]] ||
    packages_of "$(default_python)" >"$(packages_of "$venv/bin/python")/below.pth" || die "$(default_python) does not run"
  printf '%s' "${!list}" >"$venv/.memtune-$1"
  rm "$mark"
}

packages_of() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }  # PYTHON
default_python() { MEMTUNE_TORCH_VERSION='' bash -c 'source "$1"; echo "$venv/bin/python"' - "${BASH_SOURCE[0]}"; }

# The user's own python may lack modules of the tests.
check_test_python() {
  local absent
  absent=$("$test_python" -c 'from importlib.util import find_spec
print(*[m for m in ("torch", "torchvision", "transformers", "timm", "safetensors", "numpy", "peft", "bitsandbytes", "highspy", "mypy", "trl", "datasets", "sentence_transformers") if not find_spec(m)])') ||
    die "$test_python does not run"
  [[ -z $absent ]] || die "$test_python lacks $absent; set MEMTUNE_TEST_PYTHON to a python that has it"
}

install_for_tests() {  # test|ci
  local sets=()
  read -ra sets <<<"$(python_sets test)"
  install_system "$1"
  [[ $torch_minor == "$torch_default" || $test_python != "$venv"/* ]] ||
    MEMTUNE_TORCH_VERSION='' bash -c 'source "$1"; install_python tool test peer' - "${BASH_SOURCE[0]}" || exit
  install_python "${sets[@]}"
  [[ $1 != ci ]] || install_viewer
  [[ $test_python == "$venv"/* ]] || check_test_python
}

# --- the viewer's sources ---------------------------------------------------------------------------------------------

# Debian freezes Emscripten's cache before the C++ library is in it: the first link compiles that into a cache of ours,
# for some minutes. NODE_PATH has the modules that Debian packages.
use_emscripten() {
  [[ -z ${EM_CONFIG:-} ]] && grep -qs '^FROZEN_CACHE *= *True' "$emscripten/.emscripten" || return 0
  mkdir -p "$cache/emscripten"
  { grep -v '^FROZEN_CACHE' "$emscripten/.emscripten" && printf "\nCACHE = '%s'\n" "$cache/emscripten/cache"; } \
    >"$cache/emscripten/config"
  export EM_CONFIG=$cache/emscripten/config NODE_PATH=${NODE_PATH:-/usr/share/nodejs}
}

viewer_ready() { [[ -e $viewer/.memtune-viewer && $(<"$viewer/.memtune-viewer") == "$viewer_package" ]]; }

# pip checks the hash before it opens the package.
install_viewer() {
  viewer_ready && return
  mkdir -p "$cache"
  (
    flock -n 9 || { say "another memtune installs into $cache: waiting"; flock 9; }
    viewer_ready && exit
    local python pip=("$venv/bin/python" -m pip) parts=$cache/viewer-download bundle=imgui_bundle-$viewer_version
    "${pip[@]}" --version >/dev/null 2>&1 || {
      has_venv && "$python" -m venv --clear "$parts-python" || die "python3 -m venv $parts-python failed"
      pip=("$parts-python/bin/python" -m pip)
    }
    rm -rf "$parts" "$viewer"
    mkdir -p "$parts/sources"
    say "fetching the viewer's sources: ${viewer_package%% *}"
    echo "$viewer_package" >"$parts/requirements.txt"
    "${pip[@]}" download -q --disable-pip-version-check --no-deps --no-binary imgui-bundle --require-hashes \
      -r "$parts/requirements.txt" -d "$parts" >&2 || die "pip could not fetch ${viewer_package%% *}"
    tar xzf "$parts/$bundle.tar.gz" -C "$parts/sources" --strip-components=1 "$bundle/LICENSE" \
      "$bundle"/external/{imgui/imgui,implot/implot,glfw/glfw} "$bundle/bindings/imgui_bundle/assets/fonts/Roboto" ||
      die "cannot unpack $bundle into $parts"
    printf '%s' "$viewer_package" >"$parts/sources/.memtune-viewer"
    mv "$parts/sources" "$viewer"
    rm -rf "$parts" "$parts-python"
  ) 9>"$cache/lock" || exit 1
}

# --- the build --------------------------------------------------------------------------------------------------------

# About 2 GiB of memory per compiler job, because LibTorch's headers are large.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
  echo $((memory < 1 ? 1 : memory < cores ? memory : cores))
}

# The viewer is part of every build after its sources have been downloaded.
settings() {  # PRESET
  local sources=
  ! viewer_ready || sources=$viewer
  printf -- '-D%s\n' "MEMTUNE_VIEWER_SOURCES=$sources"
  if [[ $1 == web ]]; then
    printf -- '-D%s\n' "CMAKE_TOOLCHAIN_FILE=$emscripten/cmake/Modules/Platform/Emscripten.cmake" \
      CMAKE_CROSSCOMPILING_EMULATOR=node
    return
  fi
  local page=
  [[ ! -e $web_viewer ]] || page=$web_viewer
  printf -- '-D%s\n' "MEMTUNE_WEB_VIEWER=$page"
  [[ $1 != asan* && $1 != tsan && $1 != viewer ]] || return 0
  printf -- '-D%s\n' "MEMTUNE_TORCH_DIR=$torch_dir" "MEMTUNE_TORCH_PYTHON=$torch_python" "MEMTUNE_TEST_PYTHON=$test_python" \
    "MEMTUNE_TORCH_EXPECTED=${MEMTUNE_TORCH_VERSION:+$torch_minor}"
}

# build/release, or build/release-torch-2.15. Presets without LibTorch have one build for all minors.
build_folder() {  # PRESET
  local minor=
  [[ $torch_minor == "$torch_default" || ! $1 =~ ^(release|dev|ci|wheel|tsan-torch)$ ]] || minor=-torch-$torch_minor
  echo "$root/build/$1$minor"
}

# True if no input of the tool is newer than the start of the last build (folders change when files come and go).
up_to_date() {  # PRESET [PROGRAM]
  local build
  build=$(build_folder "$1")
  [[ -x $build/bin/${2:-memtune} && -e $build/.memtune-built && $(<"$build/.memtune-built") == "$(settings "$1")" ]] || return 1
  cd "$root" || return
  [[ ! $web_viewer -nt $build/.memtune-built ]] || return
  [[ -z $(find core cli gui profiles cmake CMakeLists.txt CMakePresets.json \
    -newer "$build/.memtune-built" -print -quit 2>/dev/null) ]]
}

build() {  # PRESET TARGET...
  local build arguments=()
  build=$(build_folder "$1")
  [[ $1 != web ]] || use_emscripten
  readarray -t arguments < <(settings "$1")
  mkdir -p "$build"
  (
    flock -n 9 || { say "another memtune builds in $build: waiting"; flock 9; }
    settings "$1" >"$build/.memtune-building"
    if [[ ! -e $build/build.ninja ]] || ! cmp -s "$build/.memtune-building" "$build/.memtune-configured"; then
      say "configuring ${build#"$root/"}"
      cmake -S "$root" --preset "$1" -B "$build" --log-level=WARNING "${arguments[@]}" >&2 || exit
      cp "$build/.memtune-building" "$build/.memtune-configured"
    fi
    say "building ${build#"$root/"} (${*:2})"
    cmake --build "$build" --target "${@:2}" -j "$(jobs)" >&2 || exit
    mv "$build/.memtune-building" "$build/.memtune-built"
  ) 9>"$build/.memtune-lock"
}
