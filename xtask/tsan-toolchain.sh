#!/bin/sh
# Unpacks a compiler and the source of its standard library from Debian's packages into the folder $1, because
# ThreadSanitizer needs an instrumented standard library, built from the source of the compiler's own version. The
# packages include the compiler's libraries, the C library and the loader. So nothing is installed, no privileges are
# needed, and the release of this machine does not matter. Only the sanitizer's runtime is that of the toolchain in
# use, whose LLVM has the same major version.
set -eu
suite=trixie # It has the compiler 1.96, with LLVM 22.
packages="rustc-web libstd-rust-web-dev libstd-rust-web-1.96 rust-web-src libllvm22 libc6 libgcc-s1 libstdc++6 libbsd0
  libedit2 libffi8 libicu76 liblzma5 libmd0 libtinfo6 libxml2 libz3-4 libzstd1 zlib1g"
mkdir -p "$1/lists/partial" "$1/archives/partial" "$1/packages"
folder=$(cd "$1" && pwd)
site=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Component: main' | head -n 1)
[ -n "$site" ] || { echo "tsan needs Debian's apt-get, with a mirror" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" >"$folder/sources.list"
# Separate package lists, so that those of the machine do not change.
apt() {
  apt-get -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$folder/lists" -o Dir::Cache::archives="$folder/archives" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
}
apt update
cd "$folder/packages"
# shellcheck disable=SC2086 # They are words.
apt download $packages
for package in *.deb; do dpkg -x "$package" "$folder/root"; done
runtime=lib/rustlib/x86_64-unknown-linux-gnu/lib/librustc-stable_rt.tsan.a
[ -e "$folder/root/usr/$runtime" ] || ln -s "$(rustc --print sysroot)/$runtime" "$folder/root/usr/$runtime"
# Written last: the script that runs the compiler with its own C library, in any folder.
cat >"$folder/rustc.new" <<'END'
#!/bin/sh
usr=$(dirname "$(readlink -f "$0")")/root/usr
libraries=$usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \
    "$usr/bin/rustc" --sysroot "$usr" "$@"
END
chmod 755 "$folder/rustc.new"
mv "$folder/rustc.new" "$folder/rustc"
