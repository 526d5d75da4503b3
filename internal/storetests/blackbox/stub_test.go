package blackbox

func compressionOutsideAndInside(*C) {}
