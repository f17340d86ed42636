"""The parts that several tasks share: the seam, answering, labels, images and written text."""
