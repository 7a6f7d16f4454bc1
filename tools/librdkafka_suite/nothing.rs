// cargo wants a target; there is nothing to compile.
