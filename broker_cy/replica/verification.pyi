class Verification:
    """The verification of a producer's transactional batches by the transaction coordinator. Opaque."""
