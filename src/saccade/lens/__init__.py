"""The lens: attention and positions drawn and measured."""
