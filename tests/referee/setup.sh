#!/bin/sh
# Make the referee's virtual environment at the given folder (if it is missing) and print its interpreter.
# usage: setup.sh FOLDER [REQUIREMENTS]   (the packages of requirements.txt unless another list is named)
# Exit code: 0 ready; 2 usage; 3 no suitable Python; 4 the environment could not be made; 5 the packages could not be installed.
# HLO_OPT_PYTHON names the Python to build from; the pinned packages need 3.11 or newer.
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: setup.sh FOLDER [REQUIREMENTS]" >&2
    exit 2
fi
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
for python in "${HLO_OPT_PYTHON:-}" python3.11 python3 python3.12 python3.13; do
    if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" "$here/make_venv.py" "$@"
    fi
done
echo "referee: Python 3.11 or newer is needed and none was found (looked for python3.11, python3; set HLO_OPT_PYTHON)" >&2
exit 3
