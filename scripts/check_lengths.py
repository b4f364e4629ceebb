#!/usr/bin/env python3
"""Checks that every public function that takes a length is tested with invalid lengths: compares the prototypes in include/ with the lines of
tests/safety/lengths.h.

A length is a parameter, or a member of an options struct, of one of the types below. Exempt are numbers that are no lengths, by name (NUMBERS);
the size of a buffer that the caller passes by a pointer, which cannot be checked; and functions that only the headers' macros call, whose
names end in _."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LENGTHS = {'mf_shape', 'mf_ints', 'mf_axis', 'mf_device_list', 'int', 'int64_t', 'size_t', 'uint64_t'}
NUMBERS = {'number', 'x', 'i', 'seed', 'shuffle_seed', 'began',
           'transition_steps', 'transition_begin', 'decay_steps', 'warmup_steps', 'every_k', 'max_consecutive_errors', 'period'}


def preprocessed():
    command = [os.environ.get('MF_CC', 'cc'), '-E', '-P', '-DMF_CHECK_HEADERS_', '-I' + os.path.join(ROOT, 'include'), '-I' + os.path.join(os.environ.get('MF_BUILD_DIR', 'build'), 'include'), '-x', 'c', '-']
    text = subprocess.run(command, input='#include <manyfold.h>', capture_output=True, text=True, check=True).stdout
    return ' '.join(text.split())


def length_of(declaration):
    """The declared name, if the declaration is a length."""
    if '*' in declaration or '(' in declaration:
        return None
    words = re.findall(r'\w+', declaration)
    return words[-1] if len(words) > 1 and words[-2] in LENGTHS and words[-1] not in NUMBERS else None


def members(body):
    for statement in body.split(';'):
        first, *more = statement.strip().split(',')
        kind = first.rsplit(None, 1)[0] if first.strip() else ''
        yield first
        for name in more:
            yield kind + ' ' + name


def options_with_lengths(text):
    found = set()
    for body, name in re.findall(r'typedef struct \w+ \{([^{}]*)\} (mf_\w+_options);', text):
        if any(length_of(re.sub(r'__attribute__.*', '', m)) for m in members(body)):
            found.add(name)
    return found


def functions(text):
    for name, parameters in re.findall(r'[\w*,] \*?(mf_\w+)\(((?:[^();]|\([^()]*\))*)\)(?=[ ,;_])', text):
        yield name, re.split(r',(?![^()]*\))', parameters)


def takes_length(parameters, options):
    for i, p in enumerate(parameters):
        length = length_of(p)
        if length and not (length == 'size' and any('void *' in q for q in parameters)):
            return True
        if any(re.search(r'\b%s \*' % o, p) for o in options):
            return True
    return False


def main():
    text = preprocessed()
    options = options_with_lengths(text)
    with open(os.path.join(ROOT, 'tests/safety/lengths.h')) as f:
        called = set(re.findall(r'\bmf_\w+', f.read()))
    wanted = sorted({name for name, parameters in functions(text) if takes_length(parameters, options) and not name.endswith('_')})
    missing = [n for n in wanted if n not in called and re.sub(r'_(opt|n|n1|n2)$', '', n) not in called]
    for name in missing:
        print(f'{name}: takes a length, and tests/safety/lengths.h has no line that calls it')
    if len(wanted) < 150:
        print(f'only {len(wanted)} functions were found')
    return 1 if missing or len(wanted) < 150 else 0


if __name__ == '__main__':
    sys.exit(main())
