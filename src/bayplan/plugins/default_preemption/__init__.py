"""DefaultPreemption: pods of lower priority make room for one that fits nowhere."""
