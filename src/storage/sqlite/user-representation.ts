/** A user as clients see it. It must not contain the password digest. */
export const REPRESENTATION = `json_object(
  'id', id, 'name', name, 'email', email, 'created_at', created_at, 'updated_at', updated_at)`
