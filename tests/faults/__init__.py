"""Sessions under faults: killed, stopped, refused by the disk, at moments that are chosen.

A `Trial` is the real program on a busy task against the model server; `checks` says what must hold
after each fault and at the end; `campaigns` are many trials. By hand, with any count:

    python -m tests.faults kills --count 1000 --seed 7
    python -m tests.faults boundaries --every 1 --store sqlite
"""
